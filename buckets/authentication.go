package buckets

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// authentication is one credential at one server: the global limit and the holds that are above all its buckets. Requests without a
// credential share one, as Discord counts them by IP address. The credential itself is not kept, only a keyed hash.
type authentication struct {
	manager   *RESTBucketManager
	server    *server
	edge      *edge // of the server
	id        uint64
	anonymous bool         // there is no credential
	entries   atomic.Int64 // route entries that refer to it
	seeking   atomic.Int64 // requests in flight whose bucket is not known

	families map[familyKey]*family // guarded by the manager's lock for moves

	// open says that there is no global limit, and that nothing is held or has been refused of late: nobody takes the lock.
	open atomic.Bool

	mu       sync.Mutex
	global   *ratelimits.Global
	refusals ratelimits.Refusals // global 429s
	reading  int                 // of which only the headers are known
	probing  bool                // one request goes first, after several of them in a row, and its outcome is not known
	line     line

	credential string       // what stands for it in all processes, if limits are shared
	shared     SharedGlobal // nil if they are not
	divided    bool         // each process has a part of the limit
	asked      bool         // for a part
	heard      bool         // of the others since
}

// globalPermit is what a request has of the global limit: a slot, unless there is no limit.
type globalPermit struct {
	slot  ratelimits.Slot
	probe bool // it goes first
}

// take takes a permit for a request that is sent now. It reports false if there is none, or if others are in line for it.
func (a *authentication) take(now time.Duration) (globalPermit, bool) {
	if a.open.Load() {
		return globalPermit{}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.line.length > 0 {
		a.needs(now)
		return globalPermit{}, false
	}
	p, wait, known := a.enter(now) // first, as others may hold
	a.open.Store(a.opens(now))
	return p, known && wait == 0
}

// opens reports that there is nothing that the lock would have to be taken for. The lock is held.
func (a *authentication) opens(now time.Duration) bool {
	return !a.divided && a.global.Limit() == 0 && a.global.HoldWait(now) == 0 && a.line.length == 0 && a.refusals.Row() == 0 && a.reading == 0
}

// force takes a slot for a request that does not wait for the global limit. Discord's documentation exempts interactions,
// but counts them all the same when they carry a credential (observed by several client authors).
func (a *authentication) force(now time.Duration) globalPermit {
	if a.anonymous || a.open.Load() {
		return globalPermit{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return globalPermit{slot: a.global.Force(now)}
}

// park puts a bucket in line. The bucket's lock is held.
func (a *authentication) park(now time.Duration, b *RESTBucket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.inLine, b.lineOf = true, a
	a.open.Store(false)
	a.line.push(b)
	a.moveOn(now)
}

// count counts those who wait for the global limit. One bucket in line stands for all who wait in it.
func (a *authentication) count(b *RESTBucket) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.line.count(b)
}

// wait returns the predicted wait for the global limit: until there is a slot, for those ahead in the same bucket, and for
// those of other buckets in line, which take turns with it.
func (a *authentication) wait(now time.Duration, ahead int) time.Duration {
	if a.open.Load() {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := max(a.global.Wait(now), a.partWait(now))
	if limit := a.most(); limit > 0 {
		before := min(max(a.line.waiting, ahead), (ahead+1)*max(a.line.length, 1))
		wait += time.Duration(before/limit) * time.Second
	}
	return wait
}

// holdWait returns how long a hold still lasts.
func (a *authentication) holdWait(now time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.global.HoldWait(now)
}

// report gives a permit back whose request has an outcome.
func (a *authentication) report(now time.Duration, h *held, r *ratelimits.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Status == 0 {
		a.global.Lost(h.global.slot)
	} else {
		a.global.Report(now, h.global.slot)
	}
	a.probing = a.probing && !h.global.probe
	if !h.entry.exempt && passedGlobal(r) {
		a.refusals.Accepted(h.permit.Sent())
	}
	a.moveOn(now)
}

// passedGlobal reports that the server has looked at a request behind its global limit.
func passedGlobal(r *ratelimits.Response) bool {
	return r.Status > 0 && r.Status < http.StatusInternalServerError && r.Class != ratelimits.ClassGlobal && r.Class != ratelimits.ClassEdge
}

// settle takes in the end of a request that has a permit, or that shows that a global 429 is over.
func (a *authentication) settle(now time.Duration, h *held, o *outcome) {
	switch {
	case h.global == globalPermit{} && (h.entry.exempt || a.open.Load()):
	case o.sent:
		a.report(now, h, &o.response)
	default:
		a.giveBack(now, h.global)
	}
}

// giveBack gives a permit back whose request was never sent.
func (a *authentication) giveBack(now time.Duration, p globalPermit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.global.Return(p.slot)
	a.probing = a.probing && !p.probe
	a.moveOn(now)
}

// moveOn lets the line move when it can. The lock is held.
func (a *authentication) moveOn(now time.Duration) {
	if a.line.length > 0 && a.reading == 0 && a.follow(now) {
		a.wakeAt(now, now+a.global.Wait(now))
	}
}

// refuse holds everything back for d, after a global 429, and longer after several in a row; then one request goes first.
// It returns for how long, 0 if everything was held back already.
func (a *authentication) refuse(now, d time.Duration) time.Duration {
	a.mu.Lock()
	a.open.Store(false)
	held := a.global.HoldWait(now) > 0
	d = max(d, a.refusals.Again(now, held))
	a.mu.Unlock()
	a.hold(now, d)
	if held {
		return 0
	}
	return d
}

// hold holds everything of this authentication back for d, and refuses those for whom that is too long.
func (a *authentication) hold(now, d time.Duration) {
	a.mu.Lock()
	a.open.Store(false)
	longer := a.global.Hold(now, d)
	if a.shared != nil {
		a.shared.Hold(now, d)
	}
	a.mu.Unlock()
	if longer {
		a.manager.refuseLate(a)
	}
}

// wakeAt lets the line move at the given time. The lock is held.
func (a *authentication) wakeAt(now, at time.Duration) {
	if !a.manager.closed() {
		a.line.alarm.set(a.manager.settings.clock, now, at, a.ring)
	}
}

func (a *authentication) ring() {
	a.mu.Lock()
	a.line.alarm.rang()
	a.mu.Unlock()
	a.serve()
}

// serve hands permits to the buckets in line, one after the other, as long as there are any.
func (a *authentication) serve() {
	for {
		a.mu.Lock()
		now := a.manager.now()
		if a.line.length == 0 {
			a.mu.Unlock()
			return
		}
		p, wait, known := a.enter(now)
		if wait > 0 {
			a.wakeAt(now, now+wait)
		}
		if wait > 0 || !known {
			a.mu.Unlock()
			return
		}
		b := a.line.pop()
		a.mu.Unlock()
		b.serve(passes{global: p, hasGlobal: true})
	}
}

// lift ends the hold.
func (a *authentication) lift(now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.global.LiftHold()
	a.refusals = ratelimits.Refusals{}
	a.moveOn(now)
}

// idle reports that nothing is lost by forgetting this authentication.
func (a *authentication) idle(now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.entries.Load() == 0 && a.line.length == 0 && a.global.Idle(now)
}

func (a *authentication) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.line.alarm.stop()
	a.line.clear()
	a.part()
}

package buckets

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// globalProbeTimeout is how long the outcome of the request that goes first after a global 429 is waited for: it may be a large upload,
// while most attempts have ended by then.
const globalProbeTimeout = 15 * time.Second

// triesTimeout is how long the outcome of a request is waited for that tries whether the seconds of the global limit are punctual again.
const triesTimeout = time.Second

// gate is what stands above buckets: the edge of a server, which everything has to pass, and the global limit of a credential. It lets
// through what its limit allows, if there is one, nothing while it is held or a refusal is being read, and one request first after a
// refusal. Those whom it does not let through stand in line.
type gate struct {
	line
	authentication *authentication  // whose buckets pass; nil if it is the edge
	class          ratelimits.Class // of the 429s that are about it
	probeTimeout   time.Duration    // with the request that goes first

	// open says that there is no limit, and that nothing is held or has been refused of late: nobody takes the lock.
	open atomic.Bool

	// Guarded by the line's lock.
	limit      *ratelimits.Global // without a limit it only holds
	refusals   ratelimits.Refusals
	reading    int           // refusals of which only the headers are known
	probing    bool          // since a refusal no request has passed that was sent after it
	probeUntil time.Duration // until when the one that goes first is waited for, 0 if none is in flight
	part       *globalPart   // of the limit, if processes share it; else nil
}

// gatePermit is what a request has of a gate. The zero value is what it has of one that was open.
type gatePermit struct {
	slot   ratelimits.Slot
	probe  bool // it goes first
	forced bool // it would have been sent in any case, and says nothing of the limit
}

// newEdge returns the gate of everything that leaves this IP address for one server. It stands open until the network in front of the
// server refuses something.
func newEdge(m *RESTBucketManager) *gate {
	g := newGate(m, &gate{class: ratelimits.ClassEdge, probeTimeout: ratelimits.LongestTrust, limit: ratelimits.NewGlobal(0)})
	g.open.Store(true)
	return g
}

// newGate connects a gate with its line.
func newGate(m *RESTBucketManager, g *gate) *gate {
	g.manager, g.above = m, g
	return g
}

// resize sets another limit, 0 for none, of which nothing is shared.
func (g *gate) resize(now time.Duration, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.part == nil {
		g.limit.Resize(limit)
		g.open.Store(g.opens(now))
	}
}

// take takes a permit for a request that is sent now. It reports false if there is none, or if others are in line for it.
func (g *gate) take(now time.Duration) (gatePermit, bool) {
	if g.open.Load() {
		return gatePermit{}, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queues.Len() > 0 {
		g.part.needs(now, g.waiting+1, 0)
		return gatePermit{}, false
	}
	p, wait, known := g.takeFor(now, 1) // first, as others may hold
	g.open.Store(g.opens(now))
	return p, known && wait == 0
}

func (g *gate) takeFirst(now time.Duration, waiting int) (gatePermits, time.Duration, bool) {
	p, wait, known := g.takeFor(now, waiting)
	if g.authentication == nil {
		return gatePermits{edge: p, hasEdge: true}, wait, known
	}
	return gatePermits{global: p, of: g}, wait, known
}

// takeFor takes a permit for one of so many who wait, or returns how long to wait for one at most. known is false if only the others can
// tell, or a refusal that is being read. The lock is held.
func (g *gate) takeFor(now time.Duration, waiting int) (p gatePermit, wait time.Duration, known bool) {
	leaving := 0
	if p, wait, known = g.takeOne(now); known && wait == 0 {
		leaving = 1
	}
	g.part.needs(now, waiting-leaving, leaving)
	return p, wait, known
}

func (g *gate) takeOne(now time.Duration) (p gatePermit, wait time.Duration, known bool) {
	switch {
	case !g.ready(now):
		return gatePermit{}, 0, false
	case now < g.probeUntil:
		return gatePermit{}, g.probeUntil - now, true
	}
	tries := g.limit.Tries(now)
	if p.slot, wait = g.limit.Take(now); wait == 0 && (g.probing || tries) {
		p.probe, g.probeUntil = true, now+g.probeTimeout
		if !g.probing { // the second is open by then
			g.probeUntil = now + triesTimeout
		}
	}
	return p, wait, true
}

// ready reports that time alone decides when the next request can pass at the latest. The lock is held.
func (g *gate) ready(now time.Duration) bool { return g.reading == 0 && g.syncPart(now) }

// probeEnded takes in that a request is not in flight any more, which may be the one that goes first.
func (g *gate) probeEnded(p gatePermit) {
	if p.probe {
		g.probeUntil = 0
	}
}

// opens reports that there is nothing that the lock would have to be taken for. The lock is held.
func (g *gate) opens(now time.Duration) bool {
	limited := g.limit.Limit() > 0 || g.part != nil && g.part.divided
	return !limited && g.limit.HoldWait(now) == 0 && g.queues.Len() == 0 && g.refusals.Row() == 0 && g.reading == 0 && !g.probing
}

// force takes a permit for a request that does not wait for the limit. Discord's documentation exempts interactions, but counts them
// all the same when they carry a credential (observed by several client authors).
func (g *gate) force(now time.Duration) gatePermit {
	if g.authentication.anonymous || g.open.Load() {
		return gatePermit{forced: true}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return gatePermit{slot: g.limit.Force(now), forced: true}
}

// giveBack gives a permit back whose request was not sent.
func (g *gate) giveBack(now time.Duration, p gatePermit) {
	if p == (gatePermit{}) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit.Return(p.slot)
	g.probeEnded(p)
	g.moveOn(now)
}

// tracks reports that the end of a request means something to the gate.
func (g *gate) tracks(p gatePermit) bool {
	return p.slot != ratelimits.Slot{} || p.probe || !p.forced && !g.open.Load()
}

// finish takes in the end of a request that was sent at the given time: it gives back what that had, and may show that a refusal is over.
func (g *gate) finish(now time.Duration, p gatePermit, sent time.Duration, o *outcome) {
	if !o.sent {
		g.giveBack(now, p)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch accepted := g.accepted(&o.response); {
	case accepted:
		g.limit.Accepted(p.slot)
	case o.response.Class == ratelimits.ClassGlobal:
		g.limit.Refused(now, p.slot, o.response.AskedWait())
	}
	if o.response.Status == 0 {
		g.limit.Lost(p.slot)
	} else {
		g.limit.Report(now, p.slot)
	}
	g.probeEnded(p)
	if !p.forced && g.accepted(&o.response) {
		g.refusals.Accepted(sent)
		g.probing = g.probing && !p.probe
	}
	g.moveOn(now)
}

// accepted reports that the server has looked at a request behind the gate.
func (g *gate) accepted(r *ratelimits.Response) bool {
	return r.Status > 0 && r.Status < http.StatusInternalServerError && r.Class != g.class && r.Class != ratelimits.ClassEdge
}

func (g *gate) next(now time.Duration) (at time.Duration, known bool) {
	known = g.ready(now) // first, as others may hold
	return max(now+g.limit.Wait(now), g.probeUntil), known
}

// needs: everything that leaves needs the edge, and its global limit unless it is exempt.
func (g *gate) needs(a *ask) bool { return g.authentication == nil || !a.exempt && a.global() == g }

func (g *gate) counted(time.Duration) {}

func (g *gate) declared() bool { return false }

func (g *gate) enqueue(now time.Duration, q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open.Store(false)
	g.join(now, q)
}

// close ends the gate. Leases that were taken before end as usual, and touch no other gate.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.end()
	g.part.close()
}

package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// A refusal of the edge that does not say how long is answered by growing holds between these bounds.
	edgeHoldMin = 2 * time.Second
	edgeHoldMax = 10 * time.Minute
)

// edge is the gate of everything that leaves this IP address for one server. It stands open until the network in front of Discord refuses
// something; then it holds everything back, interactions too, and lets one request through first when it opens again.
type edge struct {
	manager *RESTBucketManager
	active  atomic.Bool // see busy; without, nobody takes the lock

	mu       sync.Mutex
	window   ratelimits.Window // without a limit: only its holds and its probing are used
	backoff  *ratelimits.Backoff
	refusals ratelimits.Refusals
	reading  int // refusals of which only the headers are known
	line     line
}

func newEdge(m *RESTBucketManager) *edge {
	backoff, err := ratelimits.NewBackoff(edgeHoldMin, 2, edgeHoldMax, edgeHoldMin/4)
	if err != nil {
		panic(err) // the arguments are constants
	}
	e := &edge{manager: m, backoff: backoff}
	e.window.Unlimit()
	return e
}

// edgePermit is held by a request that left while the gate was active. The zero value is none.
type edgePermit struct {
	permit ratelimits.Permit
	taken  bool
}

// take lets one request through. It reports false if it has to wait.
func (e *edge) take(now time.Duration) (edgePermit, bool) {
	if !e.active.Load() {
		return edgePermit{}, true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line.length > 0 {
		return edgePermit{}, false
	}
	return e.enter(now)
}

func (e *edge) enter(now time.Duration) (edgePermit, bool) {
	if e.reading > 0 {
		return edgePermit{}, false
	}
	permit, ok := e.window.Take(now)
	return edgePermit{permit, ok}, ok
}

// giveBack gives a permit back whose request was not sent.
func (e *edge) giveBack(now time.Duration, p edgePermit) {
	if !p.taken {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window.Return(now, p.permit)
	e.move(now)
}

// park puts a bucket in line. The bucket's lock is held.
func (e *edge) park(now time.Duration, b *RESTBucket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b.inLine, b.lineOf = true, e
	e.line.push(b)
	e.move(now)
}

func (e *edge) count(b *RESTBucket) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.line.count(b)
}

// move lets the line move when it can. The lock is held.
func (e *edge) move(now time.Duration) {
	if at, ok := e.window.Next(now); ok && e.line.length > 0 && e.reading == 0 && !e.manager.closed() {
		e.line.alarm.set(e.manager.settings.clock, now, at, e.ring)
	}
}

// wait returns how long everything is held back.
func (e *edge) wait(now time.Duration) time.Duration {
	if !e.active.Load() {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.HoldWait(now)
}

// report takes in a response, or that there was none. It returns for how long everything is held back, 0 if it was already or
// is not.
func (e *edge) report(now time.Duration, p edgePermit, r ratelimits.Response) (held time.Duration) {
	if !p.taken && r.Class != ratelimits.ClassEdge {
		return 0
	}
	e.mu.Lock()
	if p.taken {
		r := r
		r.Limited = false // what it says of its bucket does not matter here
		if r.Class != ratelimits.ClassEdge {
			r.Class = ratelimits.ClassOK
		}
		e.window.Report(now, p.permit, r)
	}
	longer := false
	if r.Class == ratelimits.ClassEdge {
		wait := r.RetryAfter
		// The refusals of one moment count once: only one that comes after the hold grows the next.
		wait = max(wait, e.refusals.Again(now, e.window.HoldWait(now) > 0))
		if !r.HasRetryAfter && e.window.HoldWait(now) == 0 {
			wait = e.backoff.Next()
		}
		before := e.window.HoldWait(now)
		e.window.Hold(now, wait)
		longer = e.window.HoldWait(now) > before
		if before == 0 {
			held = e.window.HoldWait(now)
		}
		e.active.Store(true)
	} else if !e.window.Probing() && e.window.InFlight() == 0 {
		e.backoff.Reset()
		e.refusals.Accepted(p.permit.Sent())
		e.active.Store(e.busy(now))
	}
	e.move(now)
	e.mu.Unlock()
	if longer {
		e.manager.refuseLate(nil)
	}
	return held
}

func (e *edge) ring() {
	e.mu.Lock()
	e.line.alarm.rang()
	e.mu.Unlock()
	e.serve()
}

// serve lets the buckets in line try again, one after the other, as long as the gate lets anything through.
func (e *edge) serve() {
	for {
		e.mu.Lock()
		now := e.manager.now()
		if at, ok := e.window.Next(now); !ok || at > now || e.line.length == 0 || e.reading > 0 {
			e.active.Store(e.busy(now))
			e.move(now)
			e.mu.Unlock()
			return
		}
		b := e.line.pop()
		permit, _ := e.enter(now)
		e.mu.Unlock()
		b.serve(passes{edge: permit, hasEdge: true})
	}
}

// busy reports that there is something that the lock has to be taken for. The lock is held.
func (e *edge) busy(now time.Duration) bool {
	return e.window.HoldWait(now) > 0 || e.window.Probing() || e.window.InFlight() > 0 || e.line.length > 0 || e.reading > 0
}

// idle reports that there is nothing to remember.
func (e *edge) idle(now time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.window.HoldWait(now) == 0 && e.window.InFlight() == 0 && e.line.length == 0 && e.reading == 0
}

// lift ends the hold.
func (e *edge) lift(now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window.LiftHold(now)
	e.backoff.Reset()
	e.refusals = ratelimits.Refusals{}
	e.move(now)
}

// close ends the gate. Leases that were taken before end as usual, and touch no other gate.
func (e *edge) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.line.alarm.stop()
	e.line.clear()
}

package spectacles

import (
	"iter"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is the counter of one route, with the requests of this process that wait for it. A goroutine makes one call at
// a time for all these requests (agent.go). The goroutine runs only while a call is due. The manager's window only
// records requests and responses.
type bucket struct {
	session *session
	keys    []string
	window  *ratelimits.Window // used only while the manager calls a method
	changed func()

	mu      sync.Mutex
	waiting int       // number of requests that have not left, including granted ones
	granted []*permit // granted requests that have not left
	unsure  []string  // the names in the latest claim if its reply was lost
	reports []report

	claimAt time.Duration // no claim is made before this time
	stuckTo time.Duration // no call is made before this time, because a key holds a foreign value
	busy    bool          // whether work runs
	timer   clockwork.Timer
	rings   time.Duration // when the timer fires
	denied  int           // number of requests, counted from the first, that the last claim granted or refused
	view    view
	hold    time.Duration
	class   ratelimits.Class
	err     error
	closed  bool
}

// view is what the server's latest reply says about the window.
type view struct {
	limit     int
	remaining int
	ends      time.Duration // end of the window, 0 if it is not known
	period    time.Duration
}

// permit is a request that has a name on the server, because it got a permit or was sent without one.
type permit struct {
	name   string
	gen    int64         // number of the window in which the permit was granted; -1 if the request had no permit
	since  time.Duration // time of the grant, or of Adopt
	window ratelimits.Permit
}

// queued returns the number of waiting requests that have not been granted.
func (b *bucket) queued() int { return max(b.waiting-len(b.granted), 0) }

// Demand implements shared.Bucket. It needs only the number of waiting requests, because each permit is for the request
// that arrived first in this process.
func (b *bucket) Demand(now time.Duration, waiting int, _ iter.Seq[time.Duration]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if waiting > b.waiting && now >= b.stuckTo {
		b.err = nil // an operator may have removed the foreign value
	}
	b.waiting, b.denied = waiting, min(b.denied, waiting)
	for len(b.granted) > waiting {
		b.unsent(now, b.granted[0])
		b.granted = b.granted[1:]
	}
	b.kick(now)
}

// unsent gives a permit back to the server.
func (b *bucket) unsent(now time.Duration, p *permit) {
	b.tell(now, report{kind: unsent, name: p.name, gen: p.gen, since: now})
}

// Next implements shared.Bucket. It gives back permits that were not taken within half of their lease, because such
// permits could expire before the end of their requests.
func (b *bucket) Next(now time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.granted) > 0 && now-b.granted[0].since > b.session.store.lease/2 {
		b.unsent(now, b.granted[0])
		b.granted = b.granted[1:]
	}
	if hold := b.window.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	return now, len(b.granted) > 0
}

func (b *bucket) Take(now time.Duration) (shared.Permit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.granted) == 0 {
		return nil, false
	}
	p := b.granted[0]
	b.granted, b.waiting, b.denied = b.granted[1:], b.waiting-1, max(b.denied-1, 0)
	p.window = b.window.Adopt(now, now)
	return p, true
}

// Adopt implements shared.Bucket. The lease of the request begins now, not at the time at which the request was sent.
func (b *bucket) Adopt(now, sent time.Duration) shared.Permit {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &permit{name: b.session.name(), gen: -1, since: now, window: b.window.Adopt(now, sent)}
	b.tell(now, report{kind: adopted, name: p.name, since: now})
	return p
}

func (b *bucket) Report(now time.Duration, permission shared.Permit, r ratelimits.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := permission.(*permit)
	if !ok {
		return
	}
	b.window.Report(now, p.window, r)
	if now-p.since > b.session.store.lease { // the server has removed the request
		return
	}
	o := outcome(now, p, &r)
	switch o.kind {
	case refused:
		b.extendHold(o.until, r.Class)
	case globally:
		b.session.holdGlobal(o.until)
	}
	b.tell(now, o)
}

func (b *bucket) Return(now time.Duration, permission shared.Permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, ok := permission.(*permit); ok {
		b.window.Return(now, p.window)
		b.unsent(now, p)
	}
}

func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.HoldFor(now, d, class)
	if b.extendHold(now+d, class) {
		b.tell(now, report{kind: held, until: now + d, since: now})
	}
}

// extendHold extends the hold. It returns false if the hold already lasts until the given time or longer.
func (b *bucket) extendHold(until time.Duration, class ratelimits.Class) bool {
	if until <= b.hold {
		return false
	}
	b.hold, b.class = until, class
	return true
}

// tell lets the next call report an event to the server.
func (b *bucket) tell(now time.Duration, r report) {
	b.reports = append(b.reports, r)
	b.kick(now)
}

// Predict implements shared.Bucket. The server has no queue, so the forecast does not include waiting requests of other
// processes. The forecast is certain if the last claim granted or refused the request, if the server would refuse the
// request now, or during an outage.
func (b *bucket) Predict(now time.Duration, ahead int) (f shared.Forecast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if over := b.view.ends > 0 && now >= b.view.ends; b.view.limit > 0 {
		free := max(b.view.remaining, 0)
		if over {
			free = b.view.limit
		}
		if ahead >= free {
			f.Wait = max(b.view.ends-now, 0) + time.Duration((ahead-free)/b.view.limit)*b.view.period
			if over {
				f.Wait += b.view.period
			}
		}
	}
	if b.hold > now {
		f.Wait, f.Class = max(f.Wait, b.hold-now), b.class
	}
	away, _ := b.session.away(now) // assume that the outage will last as long as it has lasted
	f.Wait = max(f.Wait, away)
	f.Certain = ahead < max(b.denied, len(b.granted)) || away > 0 || now < b.claimAt
	if hold := b.window.HoldWait(now); hold > f.Wait {
		f.Wait, f.Class = hold, b.window.HoldClass(now)
	}
	return f
}

// Err implements shared.Bucket. It returns a *shared.KeyError if a key holds a foreign value. During an outage it
// returns nil, so that all requests wait.
func (b *bucket) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Close implements shared.Bucket. It gives back the permits of requests that have not left.
func (b *bucket) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	now := b.session.now()
	b.closed = true
	for _, p := range b.granted {
		b.unsent(now, p)
	}
	b.granted, b.waiting = nil, 0
	b.kick(now)
}

func (b *bucket) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet()
}

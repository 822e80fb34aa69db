package spectacles

import (
	"iter"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is one route's counter. Requests of this process queue here; a goroutine that lives only while there is something to say
// makes one call at a time for all of them (agent.go). The manager's window only looks on.
type bucket struct {
	session *session
	keys    []string
	window  *ratelimits.Window // used only in calls of the manager
	changed func()

	mu      sync.Mutex
	waiting int       // those that were granted included
	granted []*permit // not sent yet
	unsure  []string  // names of a claim whose reply was lost
	reports []report

	claimAt time.Duration // no claim is of any use before
	stuckTo time.Duration // no call is, because a key is not ours
	busy    bool          // its goroutine runs
	timer   clockwork.Timer
	rings   time.Duration // when the timer does
	denied  int           // so many of those who wait were told to
	view    view
	hold    time.Duration
	class   ratelimits.Class
	err     error
	closed  bool
}

// view is what the engine said last.
type view struct {
	limit     int
	remaining int
	ends      time.Duration // of the window; 0 if that is not known
	period    time.Duration
}

// permit is a request that has a name at the engine: it was granted, or is sent.
type permit struct {
	name   string
	gen    int64         // of the window in which it was granted, -1 if it was not
	since  time.Duration // when that was
	window ratelimits.Permit
}

// queued returns how many wait of which nothing is known at the engine.
func (b *bucket) queued() int { return max(b.waiting-len(b.granted), 0) }

// Demand is that of buckets.SharedBucket. What is granted goes to those who arrived first, so it is enough to know how many there are.
func (b *bucket) Demand(now time.Duration, waiting int, _ iter.Seq[time.Duration]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	if waiting > b.waiting && now >= b.stuckTo {
		b.err = nil // somebody may have put it right
	}
	b.waiting, b.denied = waiting, min(b.denied, waiting)
	for len(b.granted) > waiting {
		b.unsent(now, b.granted[0])
		b.granted = b.granted[1:]
	}
	b.kick(now)
}

// unsent gives a permit back.
func (b *bucket) unsent(now time.Duration, p *permit) {
	b.tell(now, report{kind: unsent, name: p.name, gen: p.gen, since: now})
}

// Next is that of buckets.SharedBucket. A permit that nobody takes for half its lease is given back, because it may end before
// its request does.
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

func (b *bucket) Take(now time.Duration) (buckets.SharedPermit, bool) {
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

// Adopt is that of buckets.SharedBucket. The lease begins now.
func (b *bucket) Adopt(now, sent time.Duration) buckets.SharedPermit {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &permit{name: b.session.name(), gen: -1, since: now, window: b.window.Adopt(now, sent)}
	b.tell(now, report{kind: adopted, name: p.name, since: now})
	return p
}

func (b *bucket) Report(now time.Duration, permission buckets.SharedPermit, r ratelimits.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := permission.(*permit)
	if !ok {
		return
	}
	b.window.Report(now, p.window, r)
	if now-p.since > b.session.store.lease { // the engine has forgotten it
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

func (b *bucket) Return(now time.Duration, permission buckets.SharedPermit) {
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

// extendHold reports false if what is held already is held longer.
func (b *bucket) extendHold(until time.Duration, class ratelimits.Class) bool {
	if until <= b.hold {
		return false
	}
	b.hold, b.class = until, class
	return true
}

// tell lets the engine know, with the next call.
func (b *bucket) tell(now time.Duration, r report) {
	b.reports = append(b.reports, r)
	b.kick(now)
}

// Predict is that of buckets.SharedBucket. Who waits in other processes is not known. There is no queue at the engine: what can be known of a
// request is that it was not granted when the engine was asked last, or would not be if it were asked now.
func (b *bucket) Predict(now time.Duration, ahead int) (f buckets.SharedForecast) {
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
	away, _ := b.session.away(now) // it may take as long again
	f.Wait = max(f.Wait, away)
	f.Certain = ahead < max(b.denied, len(b.granted)) || away > 0 || now < b.claimAt
	if hold := b.window.HoldWait(now); hold > f.Wait {
		f.Wait, f.Class = hold, b.window.HoldClass(now)
	}
	return f
}

// Err is that of buckets.SharedBucket: a *shared.KeyError if a key holds what is not ours. During an outage there is none,
// everybody waits.
func (b *bucket) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Close is that of buckets.SharedBucket. What was granted and not sent is given back.
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

// stop ends the timer: nothing happens any more.
func (b *bucket) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet()
}

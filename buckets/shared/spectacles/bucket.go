package spectacles

import (
	"slices"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is one route's counter. Requests of this process queue here; a goroutine that lives only while there is something to say
// makes one call at a time for all of them (agent.go).
type bucket struct {
	session *session
	keys    []string
	changed func()

	mu      sync.Mutex
	last    buckets.Ticket
	tickets map[buckets.Ticket]*ticket
	waiting fifo.Queue[*ticket]
	granted []*ticket
	unsure  []string // names of a claim whose reply was lost
	reports []report

	claimAt time.Duration // no claim is of any use before
	stuckTo time.Duration // no call is, because a key is not ours
	busy    bool          // its goroutine runs
	timer   clockwork.Timer
	rings   time.Duration  // when the timer does
	denied  buckets.Ticket // the last that was told to wait, with all before it
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

// ticket is the place of a request, and then its permit.
//
//	waiting  in the queue of the process, nothing of it is known at the engine
//	granted  it has a name, which is in flight at the engine
//	taken    its request is sent
type ticket struct {
	fifo.Element[*ticket]
	id    buckets.Ticket
	state state
	name  string
	gen   int64 // of the window in which it was granted, -1 if it was not
	since time.Duration
}

type state uint8

const (
	waiting state = iota
	granted
	taken
)

func (b *bucket) Join(now, arrived time.Duration) buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now >= b.stuckTo {
		b.err = nil // somebody may have put it right
	}
	t := b.add(now)
	t.Arrived = arrived
	b.queue(t)
	b.kick(now)
	return t.id
}

func (b *bucket) add(now time.Duration) *ticket {
	b.last++
	t := &ticket{id: b.last, since: now}
	t.Value = t
	b.tickets[t.id] = t
	return t
}

func (b *bucket) queue(t *ticket) {
	t.state, t.name = waiting, ""
	b.waiting.Insert(&t.Element)
}

func (b *bucket) Leave(now time.Duration, id buckets.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	if t == nil {
		return
	}
	delete(b.tickets, id)
	if t.state == waiting {
		b.waiting.Remove(&t.Element)
		return
	}
	b.granted = slices.DeleteFunc(b.granted, func(other *ticket) bool { return other == t })
	b.tell(now, report{kind: unsent, name: t.name, gen: t.gen, since: now})
}

// Granted is that of buckets.SharedBucket. A permit that nobody takes for half its lease is given back, because it may end before
// its request does.
func (b *bucket) Granted(now time.Duration) (buckets.Ticket, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.granted) > 0 {
		t := b.granted[0]
		if now-t.since <= b.session.store.lease/2 {
			return t.id, true
		}
		b.granted = b.granted[1:]
		b.tell(now, report{kind: unsent, name: t.name, gen: t.gen, since: now})
		b.queue(t)
	}
	b.kick(now)
	return 0, false
}

func (b *bucket) Take(now time.Duration, id buckets.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	if t == nil || t.state != granted {
		return
	}
	b.granted = slices.DeleteFunc(b.granted, func(other *ticket) bool { return other == t })
	t.state = taken
}

func (b *bucket) Report(now time.Duration, id buckets.Ticket, r ratelimits.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	if t == nil || t.state != taken {
		return
	}
	delete(b.tickets, id)
	o := outcome(now, t, &r)
	switch o.kind {
	case refused:
		b.extendHold(o.until, r.Class)
	case globally:
		b.session.holdGlobal(o.until)
	}
	b.tell(now, o)
}

// Adopt is that of buckets.SharedBucket. The lease begins now.
func (b *bucket) Adopt(now, _ time.Duration) buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.add(now)
	t.state, t.name, t.gen = taken, b.session.name(), -1
	b.tell(now, report{kind: adopted, name: t.name, since: now})
	return t.id
}

func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// Forecast is that of buckets.SharedBucket. Who waits in other processes is not known.
func (b *bucket) Forecast(now time.Duration, ahead int) buckets.SharedForecast {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := buckets.SharedForecast{Limit: b.view.limit, Period: b.view.period}
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
	return f
}

// Answered is that of buckets.SharedBucket. There is no queue at the engine: what can be known of a ticket is that it was not
// granted when the engine was asked last, or would not be if it were asked now.
func (b *bucket) Answered(id buckets.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	if t == nil || t.state != waiting || id <= b.denied {
		return true
	}
	now := b.session.now()
	away, _ := b.session.away(now)
	return away > 0 || now < b.claimAt
}

// Err is that of buckets.SharedBucket: a *shared.KeyError if a key holds what is not ours. During an outage there is none,
// everybody waits.
func (b *bucket) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// There are no loans: nobody could ask a client of Spectacles to wait for the end of one.

func (b *bucket) Loan(time.Duration) *buckets.SharedLoan { return nil }

func (b *bucket) Until() time.Duration { return 0 }

func (b *bucket) Wanted() bool { return false }

func (b *bucket) Return(time.Duration, *ratelimits.Window, []ratelimits.Permit) []buckets.Ticket {
	return nil
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
	for t := b.waiting.Head(); t != nil; t = b.waiting.Head() {
		b.waiting.Remove(t)
	}
	for _, t := range b.granted {
		b.reports = append(b.reports, report{kind: unsent, name: t.name, gen: t.gen, since: now})
	}
	b.granted = nil
	clear(b.tickets)
	b.kick(now)
}

// stop ends the timer: nothing happens any more.
func (b *bucket) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet()
}

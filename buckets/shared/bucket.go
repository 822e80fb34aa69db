package shared

import (
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is what a session knows of one bucket, and has to tell the server of it. There is one call at a time, which says
// all that there is to say; what comes up meanwhile is said by the next one. So what is said first takes effect first.
type bucket struct {
	session *session
	name    string
	keys    []string

	mu      sync.Mutex
	changed func()
	closed  bool

	tickets map[buckets.Ticket]*ticket
	alive   map[uint64]*ticket // by number, until the server knows that they are over
	numbers numbers
	line    fifo.Queue[*ticket] // those that wait
	granted fifo.Queue[*ticket]

	// What the server is to be told.
	flights  []*ticket
	outcomes []outcome
	drops    []uint64
	returned *returned
	hold     time.Duration // until when, 0 if it is said
	class    ratelimits.Class

	known    known
	loan     *loan // nil while the bucket is shared
	wantedAt time.Duration
	err      error // why the last call failed, if that is no outage
	errAt    time.Duration

	active   bool // counted by the session as one that does something
	calling  bool
	calls    int       // that have ended
	ended    sync.Cond // one has, or there are no more
	due      bool      // there is something to say
	failing  int       // calls in a row that failed
	looks    int       // calls in a row that found the bucket lent to somebody else
	failedTo uint64    // the last ticket that there was when a call failed
	timer    clockwork.Timer
	gathers  bool // nothing is said yet, as there is more to come
}

var _ buckets.SharedBucket = (*bucket)(nil)

// Bucket returns the bucket of that name. One that was closed and still has something to say goes on, so that it says that
// first.
func (s *session) Bucket(key buckets.SharedKey, changed func()) buckets.SharedBucket {
	k := s.store.keys
	name := k.bucket(key)
	s.agents.mu.Lock()
	b := s.agents.byName[name]
	s.agents.mu.Unlock()
	if b == nil {
		b = &bucket{
			session: s, name: name,
			keys:    []string{k.name("b", name), k.name("q", name), k.name("f", name), k.sessions()},
			tickets: map[buckets.Ticket]*ticket{}, alive: map[uint64]*ticket{}, wantedAt: -1,
		}
		b.ended.L = &b.mu
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed, b.closed, b.err = changed, false, nil
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	s.agents.byName[name] = b
	return b
}

// enter gives a ticket a new number, and makes it known.
func (b *bucket) enter(t *ticket) {
	t.number = b.session.agents.next.Add(1)
	b.alive[t.number] = t
	b.numbers = append(b.numbers, t.number)
}

// Join asks for a permit.
func (b *bucket) Join(now, arrived time.Duration) buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := newTicket(waiting)
	t.Arrived = arrived
	if b.loan != nil {
		return buckets.Ticket(b.session.agents.next.Add(1)) // void
	}
	b.enter(t)
	t.id = buckets.Ticket(t.number)
	b.tickets[t.id] = t
	b.line.Insert(&t.Element)
	b.say(now)
	return t.id
}

// Leave gives back a ticket.
func (b *bucket) Leave(now time.Duration, id buckets.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	switch {
	case t == nil:
		return
	case t.stage == flying:
		b.end(now, t, ratelimits.Response{}, true)
		return
	case t.stage == granted:
		b.granted.Remove(&t.Element)
	default:
		b.line.Remove(&t.Element)
	}
	delete(b.tickets, id)
	b.forget(now, t)
}

// forget takes back the name of a ticket that is no longer queued here.
func (b *bucket) forget(now time.Duration, t *ticket) {
	delete(b.alive, t.number)
	if t.said || b.calling { // or it is being said just now
		b.drops = append(b.drops, t.number)
		b.say(now)
	}
}

// Granted returns the first ticket that may be sent.
func (b *bucket) Granted(now time.Duration) (buckets.Ticket, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil {
		return 0, false
	}
	for {
		head := b.granted.Head()
		if head == nil {
			return 0, false
		}
		t := head.Value
		if now-t.since < b.session.store.options.lease/2 && b.session.believed(t.since, now) {
			return t.id, true
		}
		// Nobody took it for long, so others may have it, or have it already; it goes back into the queue.
		b.granted.Remove(head)
		b.forget(now, t)
		t.stage, t.said = waiting, false
		b.enter(t)
		b.line.Insert(head)
		b.say(now)
	}
}

// Take says that a request is sent.
func (b *bucket) Take(now time.Duration, id buckets.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	if t == nil || t.stage != granted {
		return
	}
	b.granted.Remove(&t.Element)
	t.stage, t.since = flying, now
}

// Report says what came of a request.
func (b *bucket) Report(now time.Duration, id buckets.Ticket, r ratelimits.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tickets[id]; t != nil && t.stage == flying {
		b.end(now, t, r, false)
	}
}

// end takes a request out of those in flight.
func (b *bucket) end(now time.Duration, t *ticket, r ratelimits.Response, unsent bool) {
	delete(b.tickets, t.id)
	if b.loan != nil {
		b.loan.ended(t, r, unsent)
		return
	}
	t.stage = ended
	b.outcomes = append(b.outcomes, outcome{number: t.number, window: t.window, at: now, sent: t.since, unsent: unsent, response: r})
	b.say(now)
}

// Hold lets nothing leave in any process.
func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d <= 0 || now+d <= max(b.hold, b.known.hold) {
		return
	}
	b.hold, b.class = now+d, class
	b.known.hold, b.known.holding = b.hold, class
	b.say(now)
}

// Adopt charges a request that is in flight.
func (b *bucket) Adopt(now, sent time.Duration) buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil {
		return buckets.Ticket(b.session.agents.next.Add(1)) // void
	}
	t := b.fly(sent)
	b.say(now)
	return t.id
}

// fly makes a ticket of a request that is in flight, which the server is to be told.
func (b *bucket) fly(sent time.Duration) *ticket {
	t := newTicket(flying)
	t.since = sent
	b.enter(t)
	t.id = buckets.Ticket(t.number)
	b.tickets[t.id] = t
	b.flights = append(b.flights, t)
	return t
}

// Forecast returns how long one more request would wait, at least. How long an outage will last is not known.
func (b *bucket) Forecast(now time.Duration, ahead int) buckets.SharedForecast {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := &b.known
	f := buckets.SharedForecast{Limit: k.limit, Period: k.period}
	others := k.others
	if ahead < b.line.Len() {
		others = min(k.ahead, others) // somebody in our midst
	}
	if away, _ := b.session.away(); away || now-k.at > sessionTime {
		others = 0 // who knows whether they still wait
	}
	left, rest := k.left, k.end-now
	if rest <= 0 {
		left, rest = k.limit, k.period
	}
	if n := ahead + others - left; k.limit > 0 && n >= 0 {
		f.Wait = rest + time.Duration(n/k.limit)*k.period
	}
	if hold := max(k.hold, b.hold) - now; hold > 0 && hold >= f.Wait {
		f.Wait, f.Class = hold, k.holding
	}
	return f
}

// Answered reports that the place of a ticket is known, or that a call failed that should have told.
func (b *bucket) Answered(id buckets.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	return t != nil && (t.said || t.number <= b.failedTo)
}

// errorMemory is how long nobody asks again after an answer that was wrong. Then the next request does, as somebody may have mended it.
const errorMemory = time.Second

// Err returns why nothing is granted.
func (b *bucket) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil && b.session.now()-b.errAt < errorMemory {
		return b.err
	}
	return b.session.refusalErr()
}

// Close ends the use of the bucket. It is removed once everything has been reported to the server.
func (b *bucket) Close() {
	now := b.session.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.loan != nil {
		b.giveUp(now)
	}
	for _, t := range b.tickets {
		switch t.stage {
		case waiting:
			b.line.Remove(&t.Element)
		case granted:
			b.granted.Remove(&t.Element)
		case flying:
			continue
		}
		delete(b.tickets, t.id)
		b.forget(now, t)
	}
	b.stopTimer()
	b.session.forgetIdle(b)
}

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
// all that there is to say; what comes up meanwhile is said by the next one.
type bucket struct {
	session *session
	name    string
	keys    []string

	mu      sync.Mutex
	changed func()
	closed  bool

	tickets map[buckets.Ticket]*ticket
	alive   map[uint64]*ticket  // by number, until the server knows that they are over
	line    fifo.Queue[*ticket] // those that wait
	granted fifo.Queue[*ticket]
	ended   []*ticket // whose outcome the server does not know yet, in their order

	// What else the server is to be told.
	returned *returned
	hold     time.Duration // until when, 0 if it is said
	class    ratelimits.Class

	known    *state // the latest that is known; nil if nothing is
	kept     string // the same as the server keeps it
	knownAt  time.Duration
	unsure   *turn                    // the latest call, if nobody knows whether it got through
	loan     *loan                    // nil while the bucket is shared
	wantedBy map[string]struct{}      // sessions that want the loan back
	recalls  *recollection            // what was known of the bucket before the server lost it
	vouched  map[string]time.Duration // when sessions were alive for certain, by the server's clock
	dead     []string                 // sessions of which the server has said so
	err      error                    // why the last call failed, if that is no outage
	errAt    time.Duration

	active   bool // counted by the session as one that does something
	calling  bool
	over     sync.Cond     // one has, or there are no more
	due      bool          // there is something to say, or to ask
	asks     bool          // to ask
	failing  int           // calls in a row that failed
	looks    int           // calls in a row that found the bucket lent to somebody else
	lookedAt time.Duration // when the latest of them ended
	lentTill time.Duration // until when that one is alive if it says nothing else
	failedTo uint64        // the last ticket that there was when a call failed
	timer    clockwork.Timer
	gathers  bool // nothing is said yet, as there is more to come

	knownUntil time.Duration // when the window that is known ends, by our clock
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
			keys:    []string{k.name("b", name), k.sessions(), k.wants(), k.era()},
			tickets: map[buckets.Ticket]*ticket{}, alive: map[uint64]*ticket{}, wantedBy: map[string]struct{}{}, vouched: map[string]time.Duration{},
		}
		b.over.L = &b.mu
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
	t.number, t.known = b.session.agents.next.Add(1), false
	b.alive[t.number] = t
}

// Join asks for a permit.
func (b *bucket) Join(now, arrived time.Duration) buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil {
		return buckets.Ticket(b.session.agents.next.Add(1)) // void
	}
	t := newTicket(waiting)
	t.Arrived = arrived
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

// forget takes back the name of a ticket that is no longer queued here: whatever the server grants to it was never sent.
func (b *bucket) forget(now time.Duration, t *ticket) {
	delete(b.alive, t.number)
	b.say(now)
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
		if now-t.since < b.session.store.options.lease/2 && now < b.session.believedUntil(t.since) {
			return t.id, true
		}
		// Nobody took it for long, so others may have it, or have it already; it goes back into the queue.
		b.granted.Remove(head)
		b.forget(now, t)
		t.stage = waiting
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
	t.stage, t.outcome = ended, outcome{at: now, unsent: unsent, response: r}
	if b.loan != nil {
		b.loan.end(b, t)
		return
	}
	b.ended = append(b.ended, t)
	b.say(now)
}

// Hold lets nothing leave in any process.
func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d > 0 && now+d > max(b.hold, b.heldUntil()) {
		b.hold, b.class = now+d, class
		b.say(now)
	}
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

// fly makes a ticket of a request that is in flight.
func (b *bucket) fly(sent time.Duration) *ticket {
	t := newTicket(flying)
	t.since = sent
	b.enter(t)
	t.id = buckets.Ticket(t.number)
	b.tickets[t.id] = t
	return t
}

// Forecast returns how long one more request would wait, at least. How long an outage will last is not known.
func (b *bucket) Forecast(now time.Duration, ahead int) (f buckets.SharedForecast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outdate()
	if b.known != nil {
		w := &b.known.window
		engine := b.session.engineTime(now)
		if away, _ := b.session.away(); !away && now-b.knownAt <= sessionTime { // else who knows whether they still wait
			ahead += b.known.others(b.session.id, ahead < b.line.Len())
		}
		f.Limit, f.Period = w.Limit(), w.Period()
		f.Wait, f.Class = w.Predict(engine, ahead), w.HoldClass(engine)
		if w.HoldWait(engine) < f.Wait {
			f.Class = ratelimits.ClassOK
		}
	}
	if hold := b.hold - now; hold > 0 && hold >= f.Wait {
		f.Wait, f.Class = hold, b.class
	}
	return f
}

// heldUntil is until when nothing may leave as far as the server knows.
func (b *bucket) heldUntil() time.Duration {
	b.outdate()
	if b.known == nil {
		return 0
	}
	now := b.session.now()
	return now + b.known.window.HoldWait(b.session.engineTime(now))
}

// Answered reports that the place of a ticket is known, or that a call failed that should have told.
func (b *bucket) Answered(id buckets.Ticket) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[id]
	return t != nil && (t.known || t.number <= b.failedTo)
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
		default:
			continue
		}
		delete(b.tickets, t.id)
		b.forget(now, t)
	}
	b.stopTimer()
	b.session.forgetIdle(b)
}

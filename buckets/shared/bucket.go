package shared

import (
	"iter"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// bucket is what a session knows of one bucket, and has to tell the server of it. There is one call at a time, which says
// all that there is to say; what comes up meanwhile is said by the next one.
//
//	shared  all processes together decide what leaves, by the state that the server keeps. The manager's window only looks on
//	lent    this process decides alone, by the manager's window, as long as the loan lasts
//
// The manager's window is used only in calls of the manager, which holds the lock that guards it. So a loan that is offered begins with the
// manager's next call, and one that is over ends when the manager wants to know what may leave.
type bucket struct {
	session *session
	name    string
	keys    []string

	mu      sync.Mutex
	window  *ratelimits.Window // the manager's
	blank   ratelimits.Window  // what it is as long as nothing is known: unknown, or new and declared
	late    lateness           // of other buckets of its hash
	changed func()
	closed  bool

	waiting int       // requests of the manager, those that were granted included
	waiters []waiter  // the first of them that are not
	spare   []waiter  // room for the next ones
	granted []waiter  // the first of all
	permits []*permit // of what flies
	ended   []outcome // that the server does not know yet, in their order

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
	failedTo uint64        // the last number that there was when a call failed
	timer    clockwork.Timer

	knownUntil time.Duration // when the window that is known ends, by our clock
}

var _ buckets.SharedBucket = (*bucket)(nil)

// Bucket returns the bucket of that name. One that was closed and still has something to say goes on, so that it says that
// first.
func (s *session) Bucket(key buckets.SharedKey, window *ratelimits.Window, changed func()) buckets.SharedBucket {
	k := s.store.keys
	name := k.bucket(key)
	s.agents.mu.Lock()
	b := s.agents.byName[name]
	s.agents.mu.Unlock()
	if b == nil {
		b = &bucket{
			session: s, name: name,
			keys:     []string{k.name("b", name), k.sessions(), k.wants(), k.era()},
			wantedBy: map[string]struct{}{}, vouched: map[string]time.Duration{},
		}
		b.over.L = &b.mu
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window, b.changed, b.closed, b.err = window, changed, false, nil
	b.blank, b.late = blank(window), latenessOf(window)
	s.agents.mu.Lock()
	defer s.agents.mu.Unlock()
	s.agents.byName[name] = b
	return b
}

// blank returns a window of which nothing is known, but for a limit that was declared like that of another one.
func blank(like *ratelimits.Window) (w ratelimits.Window) {
	if like.Declared() {
		w.Declare(like.Limit(), like.Period())
	}
	return w
}

// lateness is what is known of how much later than announced a bucket opens.
type lateness struct {
	by    time.Duration
	known bool
}

func latenessOf(w *ratelimits.Window) (l lateness) {
	l.by, l.known = w.Late()
	return l
}

// expect tells a window of a lateness, if one is known.
func (l lateness) expect(now time.Duration, w *ratelimits.Window) {
	if l.known && l != latenessOf(w) {
		w.ExpectLate(now, l.by)
	}
}

// enter begins a call of the manager, and with it a loan that is offered. The manager's window knows what all processes have learnt of
// lateness, as a start for other buckets of the hash. b.mu is held.
func (b *bucket) enter(now time.Duration) {
	switch {
	case b.loan != nil && b.loan.offered:
		b.begin(now)
	case b.loan == nil && b.known != nil:
		latenessOf(&b.known.window).expect(now, b.window)
	}
}

// decides is enter, and reports that the manager's window decides what leaves. A loan that is over or wanted ends. b.mu is held.
func (b *bucket) decides(now time.Duration) bool {
	b.enter(now)
	if l := b.loan; l != nil && (l.wanted || now >= b.loanUntil()) {
		b.endLoan(now)
	}
	return b.loan != nil
}

// Demand takes in who waits.
func (b *bucket) Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.decides(now):
		b.waiting = waiting
	case b.closed:
	case b.seat(waiting, arrivals) || b.due && b.failing == 0:
		b.say(now)
	}
}

// Next returns when the next request may leave.
func (b *bucket) Next(now time.Duration) (at time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.decides(now) {
		return b.window.Next(now)
	}
	if hold := b.window.HoldWait(now); hold > 0 {
		return now + hold, true
	}
	_, ok = b.nextGrant(now)
	return now, ok
}

// Take says that a request is sent.
func (b *bucket) Take(now time.Duration) (buckets.SharedPermit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.decides(now) {
		p, ok := b.window.Take(now)
		if !ok {
			return nil, false
		}
		return b.fly(now, p), true
	}
	w, ok := b.nextGrant(now)
	if !ok {
		return nil, false
	}
	b.granted = b.granted[1:]
	b.waiting--
	p := b.fly(now, b.window.Adopt(now, now))
	p.number = w.number
	return p, true
}

// Adopt charges a request that is in flight.
func (b *bucket) Adopt(now, sent time.Duration) buckets.SharedPermit {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	p := b.fly(sent, b.window.Adopt(now, sent))
	if b.loan == nil {
		p.number = b.session.agents.next.Add(1)
		b.say(now)
	}
	return p
}

// Report says what came of a request.
func (b *bucket) Report(now time.Duration, p buckets.SharedPermit, r ratelimits.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	landed, ok := b.land(p)
	if !ok {
		return
	}
	limit, left := b.window.Limit(), b.window.Remaining(now)
	b.window.Report(now, landed.window, b.loan.seen(r))
	switch {
	case landed.number > 0:
		b.end(&landed, outcome{at: now, response: r})
	case b.loan == nil || b.loan.alone:
	case b.window.Declared(): // of which it says nothing
	case b.window.Limit() != limit, b.window.Remaining(now) < left, r.Class == ratelimits.ClassUser:
		// Whoever has to do without this process shall know the limit. And somebody else uses the bucket: perhaps it was lent twice, as the
		// server has forgotten it. It is lent again with the next permit.
		b.endLoan(now)
	}
}

// Return takes back a request that was not sent.
func (b *bucket) Return(now time.Duration, p buckets.SharedPermit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	landed, ok := b.land(p)
	if !ok {
		return
	}
	b.window.Return(now, landed.window)
	if landed.number > 0 {
		b.end(&landed, outcome{at: now, unsent: true})
	}
}

// Hold lets nothing leave in any process.
func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	d = min(d, ratelimits.LongestTrust)
	b.window.HoldFor(now, d, class)
	if b.loan == nil && d > 0 && now+d > max(b.hold, b.heldUntil()) {
		b.hold, b.class = now+d, class
		b.say(now)
	}
}

// Predict returns how long one more request would wait, at least. How long an outage will last is not known.
func (b *bucket) Predict(now time.Duration, ahead int) (f buckets.SharedForecast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.window
	if b.loan != nil && !b.loan.offered {
		return buckets.SharedForecast{Wait: w.Predict(now, ahead), Class: w.WaitClass(now), Certain: true, Own: true}
	}
	f.Certain = b.answered(ahead)
	b.outdate()
	// The server has charged those that it has granted, though they have not left yet. None of them waits for it again.
	if b.known != nil && ahead >= len(b.granted) {
		w := &b.known.window
		engine := b.session.engineTime(now)
		ahead -= len(b.granted)
		if away, _ := b.session.away(); !away && now-b.knownAt <= sessionTime { // else who knows whether they still wait
			ahead += b.known.others(b.session.id, ahead < b.queued())
		}
		f.Wait, f.Class = w.Predict(engine, ahead), w.HoldClass(engine)
		if w.HoldWait(engine) < f.Wait {
			f.Class = ratelimits.ClassOK
		}
	}
	if hold := b.hold - now; hold > 0 && hold >= f.Wait {
		f.Wait, f.Class = hold, b.class
	}
	if hold := w.HoldWait(now); hold > f.Wait {
		f.Wait, f.Class = hold, w.HoldClass(now)
	}
	return f
}

// answered reports that the place of the request with so many of this process ahead of it is known, or that a call failed that should have told.
func (b *bucket) answered(ahead int) bool {
	i := ahead - len(b.granted)
	return i < 0 || i < len(b.waiters) && (b.waiters[i].known || b.waiters[i].number <= b.failedTo)
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

// errorMemory is how long nobody asks again after an answer that was wrong. Then the next request does, as somebody may have mended it.
const errorMemory = time.Second

// Err returns why nothing is granted.
func (b *bucket) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.loan != nil:
		return nil
	case b.err != nil && b.session.now()-b.errAt < errorMemory:
		return b.err
	}
	return b.session.refusalErr()
}

// Close ends the use of the bucket, and a loan with it. It is removed once everything has been reported to the server.
func (b *bucket) Close() {
	now := b.session.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil && !b.loan.offered {
		b.endLoan(now)
	}
	b.close(now)
}

// abandon is Close without the manager, whose window nobody may look at.
func (b *bucket) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close(b.session.now())
}

// close is Close when there is no loan that was used. b.mu is held.
func (b *bucket) close(now time.Duration) {
	b.closed = true
	if b.loan != nil {
		b.giveUp()
	}
	left := b.waiting > 0
	b.waiting, b.waiters, b.granted = 0, nil, nil
	b.stopTimer()
	if left || b.due {
		b.say(now)
	}
	b.session.forgetIdle(b)
}

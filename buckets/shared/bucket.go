package shared

import (
	"iter"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/ratelimits"
)

// bucket holds what a session knows of one bucket, and the news that the session has for the server. A bucket makes one
// call at a time, and each call reports all news. News that arises during a call is reported by the next call.
//
//	shared  all processes decide together, by the state on the server. The manager's window only records
//	lent    this process has a loan: it decides alone, by the manager's window, until the loan ends
//
// The manager's lock guards the manager's window, so the bucket uses the window only while the manager calls one of the
// bucket's methods. Therefore a loan that the server grants is first on offer, and begins with the manager's next call.
// An expired loan ends when the manager next asks whether a request may leave.
type bucket struct {
	session *session
	name    string
	key     string

	mu      sync.Mutex
	window  *ratelimits.Window
	blank   ratelimits.Window // a new window; a declared limit is set in it
	late    lateness          // how late other buckets with the same hash open
	changed func()
	closed  bool

	waiting int       // number of the manager's requests that have not left, including granted ones
	waiters []waiter  // the earliest waiting requests without a permit, in order of arrival
	spare   []waiter  // storage for the next value of waiters
	granted []waiter  // granted requests that have not left; they come before all waiters
	unused  int       // number of permits that the known state charges although they were given back
	permits []*permit // of requests in flight
	ended   []outcome // outcomes that the server does not know yet, oldest first

	// More news for the server.
	returned *returned
	hold     time.Duration // end of a hold that the server does not know yet, 0 if there is no such hold
	class    ratelimits.Class

	known    *state // latest known state, nil if none is known
	kept     string // the known state in the form in which the server stores it
	knownAt  time.Duration
	unsure   *turn                    // the latest call, while it is not known whether it took effect
	loan     *loan                    // nil if the bucket is not lent to this process
	wantedBy map[string]struct{}      // sessions that need the loan
	recalls  *recollection            // what was known before the server lost the state
	vouched  map[string]time.Duration // when sessions were last known to be alive
	dead     []string                 // sessions that the latest call found dead; empty once a newer state is known
	err      error                    // why the last call failed; nil during an outage
	errAt    time.Duration

	active   bool          // whether the session counts the bucket as busy
	calling  bool          // whether converse runs
	over     sync.Cond     // signalled when a call has ended, and when the timer was stopped
	due      bool          // whether a call is needed
	asks     bool          // whether the call is needed even if there is no news to report
	failing  int           // failed calls in a row
	tellAt   time.Duration // when a call has to report the outcomes that say nothing new
	contest  contest
	looks    int           // number of calls in a row that found the bucket lent to another session
	lookedAt time.Duration // end of the latest of these calls
	lentTill time.Duration // when the session with the loan will count as dead unless it makes a call
	failedTo uint64        // the latest number of a request or a call at the time when a call last failed
	timer    clockwork.Timer

	knownUntil time.Duration // end of the known state's window, by our clock
	toldPeriod time.Duration // longest period in the states of all loans so far, when they began and when they ended

	mates   int // largest number of sessions in the recent states of the bucket
	matesAt time.Duration
}

var _ Bucket = (*bucket)(nil)

// Bucket returns the bucket with the key. If a closed bucket with that key still has news for the server, Bucket
// returns that bucket, and the news is reported first.
func (s *session) Bucket(key Key, window *ratelimits.Window, changed func()) Bucket {
	k := s.store.keys
	name := k.bucket(key)
	s.agents.mu.Lock()
	b := s.agents.byName[name]
	s.agents.mu.Unlock()
	if b == nil {
		b = &bucket{
			session: s, name: name,
			key:      k.name("b", name),
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

// blank returns a new window. If like has a declared limit, the new window has the same limit and period.
func blank(like *ratelimits.Window) (w ratelimits.Window) {
	if like.Declared() {
		w.Declare(like.Limit(), like.Period())
	}
	return w
}

// lateness is how long after the announced time the buckets of one hash open.
type lateness struct {
	by    time.Duration
	known bool
}

func latenessOf(w *ratelimits.Window) (l lateness) {
	l.by, l.known = w.Late()
	return l
}

// expect passes the lateness to a window if the lateness is known.
func (l lateness) expect(now time.Duration, w *ratelimits.Window) {
	if l.known && l != latenessOf(w) {
		w.ExpectLate(now, l.by)
	}
}

// enter is called first by each method that the manager calls. If a loan is on offer, enter begins it. If the bucket is
// shared, enter passes the lateness of the known state to the manager's window, because the manager applies the
// lateness to other buckets with the same hash. b.mu must be held.
func (b *bucket) enter(now time.Duration) {
	switch {
	case b.loan != nil && b.loan.offered:
		b.begin(now)
	case b.loan == nil && b.known != nil:
		latenessOf(&b.known.window).expect(now, b.window)
	}
}

// decides calls enter, and ends a loan that has expired or that another session needs. It reports whether the manager's
// window decides which requests leave. b.mu must be held.
func (b *bucket) decides(now time.Duration) bool {
	b.enter(now)
	if l := b.loan; l != nil && (l.wanted || now >= b.loanUntil()) {
		b.endLoan(now)
	}
	return b.loan != nil
}

// Demand implements Bucket.
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

// Next implements Bucket.
func (b *bucket) Next(now time.Duration) (at time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.decides(now) {
		return b.window.Next(now)
	}
	// A hold may have begun in another process since a request was granted.
	if held := max(now+b.window.HoldWait(now), b.heldUntil(now)); held > now {
		return held, true
	}
	_, ok = b.nextGrant(now)
	return now, ok
}

// Take implements Bucket.
func (b *bucket) Take(now time.Duration) (Permit, bool) {
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

// Adopt implements Bucket.
func (b *bucket) Adopt(now, sent time.Duration) Permit {
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

// Report implements Bucket.
func (b *bucket) Report(now time.Duration, p Permit, r ratelimits.Response) {
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
	case b.window.Declared(): // responses say nothing about a declared limit
	case b.window.Limit() != limit, b.window.Remaining(now) < left, b.window.Period() > b.toldPeriod+b.toldPeriod/8,
		r.Class == ratelimits.ClassUser:
		// The other processes need a changed limit or a longer period if this process dies. A 429, or fewer remaining
		// requests than expected, may mean that the bucket was lent twice, because the server lost the loan. The next
		// permit brings a new loan.
		b.endLoan(now)
	}
}

// Return implements Bucket.
func (b *bucket) Return(now time.Duration, p Permit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	landed, ok := b.land(p)
	if !ok {
		return
	}
	b.window.Return(now, landed.window)
	if landed.number > 0 {
		b.unused++
		b.end(&landed, outcome{at: now, unsent: true})
	}
}

// Hold implements Bucket.
func (b *bucket) Hold(now, d time.Duration, class ratelimits.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enter(now)
	d = min(d, ratelimits.LongestTrust)
	b.window.HoldFor(now, d, class)
	if b.loan == nil && d > 0 && now+d > max(b.hold, b.heldUntil(now)) {
		b.hold, b.class = now+d, class
		b.say(now)
	}
}

// Predict implements Bucket. The prediction does not include the time until an outage ends, which is not known.
func (b *bucket) Predict(now time.Duration, ahead int) (f Forecast) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.window
	if b.loan != nil && !b.loan.offered {
		return Forecast{Wait: w.Predict(now, ahead), Class: w.WaitClass(now), Certain: true, Own: true}
	}
	f.Certain = b.answered(ahead)
	b.outdate()
	// The server has already charged the granted requests, although they have not left. So they do not delay other
	// requests. Permits that were given back are free again as soon as the server learns of that.
	if charged := len(b.granted) + b.unused; b.known != nil && ahead >= charged {
		w := &b.known.window
		engine := b.session.engineTime(now)
		ahead -= charged
		// Count the waiting requests of other processes only if the known state is recent. If the state is older, these
		// requests may have left since it was written.
		if away, _ := b.session.away(); !away && now-b.knownAt <= sessionTime {
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

// answered reports whether the server is known to have a request of this process in its queue, or a call has failed
// since that request arrived. ahead is the number of requests of this process before that request.
func (b *bucket) answered(ahead int) bool {
	i := ahead - len(b.granted)
	return i < 0 || i < len(b.waiters) && (b.waiters[i].known || b.waiters[i].number <= b.failedTo)
}

// heldUntil returns the end of the hold in the known state, by our clock. If there is no hold, it returns now.
func (b *bucket) heldUntil(now time.Duration) time.Duration {
	b.outdate()
	if b.known == nil {
		return now
	}
	return now + b.known.window.HoldWait(b.session.engineTime(now))
}

// errorMemory is how long after an error the bucket rejects requests without another call. After that time, an operator
// may have removed the cause of the error.
const errorMemory = time.Second

// Err returns why the bucket grants no permits, nil if requests may wait for permits.
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

// Close ends the use of the bucket and the bucket's loan. The session removes the bucket once all news of the bucket
// has been reported.
func (b *bucket) Close() {
	now := b.session.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil && !b.loan.offered {
		b.endLoan(now)
	}
	b.close(now)
}

// abandon does what Close does, when the session ends. It does not return a loan that has begun, because the return
// would have to use the manager's window. Such a loan ends with the session.
func (b *bucket) abandon() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan == nil || b.loan.offered {
		b.close(b.session.now())
	}
}

// close ends the use of a bucket whose loan has not begun or has ended. b.mu must be held.
func (b *bucket) close(now time.Duration) {
	b.closed = true
	if b.loan != nil { // still on offer
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

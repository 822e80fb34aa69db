package shared

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// loan is the right of this process to use a bucket alone. The server has lent the bucket, or the process has taken it
// while the server is unavailable. A loan from the server lasts as long as the session is alive, but no longer than the
// server certainly stores the bucket. After the end of a loan, the next permit brings a new one.
type loan struct {
	state   *state            // the state that the server lent; nil if the process took the bucket
	offered bool              // whether the loan is on offer: it begins with the manager's next call
	wanted  bool              // whether the loan has to end, for example because another session needs the bucket
	alone   bool              // whether the process took the bucket while the server was unavailable
	share   int               // the process uses 1/share of the limit
	at      time.Duration     // start of the call that brought the loan, or when the process took the bucket
	window  ratelimits.Window // by our clock; only if the process took the bucket

	low, high time.Duration // bounds of the times in the lent state minus ours
}

// declaredLoanTime bounds a loan of a declared limit. If the server loses the key of the limit, the server may lend the
// limit to a second process, and no response would show this.
const declaredLoanTime = time.Minute

// forever is the length of a loan without a known end.
const forever = 10 * 365 * 24 * time.Hour

// returned is a loan that has ended, but whose state the server does not have yet.
type returned struct {
	kept    string  // the returned state in the form in which the server stores it
	version version // version that was lent
	wanted  bool    // whether another session needed the bucket
	alone   bool    // whether other processes may have used the bucket at the same time
	slept   bool    // whether this process may have been suspended, so that responses may be older than they seem
}

// seen returns a response whose limit and remaining requests are reduced to the loan's share of the limit. If there is
// no loan, or share is 1, it returns r unchanged.
func (l *loan) seen(r ratelimits.Response) ratelimits.Response {
	if l != nil && l.share > 1 && r.Limited {
		r.Limit = max(r.Limit/l.share, 1)
		r.Remaining = min(r.Remaining, r.Limit)
	}
	return r
}

// accept makes l the bucket's loan. The loan is on offer until the manager's next call. b.mu must be held.
func (b *bucket) accept(l *loan) {
	b.loan, l.offered = l, true
	if l.state != nil {
		b.toldPeriod = max(b.toldPeriod, l.state.window.Period())
	}
	if !l.alone {
		b.session.meter.count(&b.session.meter.counted.LoansTaken)
	}
	b.waiters, b.granted = nil, nil
	for i := range b.ended {
		b.hand(l, &b.ended[i])
	}
	b.ended, b.unsure = nil, nil
	b.stopTimer()
	b.activate()
}

// hand records the outcome of an earlier request in a loan, if the server does not know that outcome yet.
func (b *bucket) hand(l *loan, o *outcome) {
	s := b.session
	if l.state == nil {
		if !o.unsent {
			l.window.Report(o.at, l.window.Adopt(o.at, o.sent), o.response)
		}
		return
	}
	now := s.engineTime(s.now())
	permit, ok := l.state.land(s.id, o.number)
	if !ok && !o.unsent { // the call that brought the loan had started before the request was sent
		permit, ok = l.state.window.Adopt(now, s.sentTime(o.sent)), true
	}
	if ok {
		s.report(&l.state.window, now, permit, o)
	}
}

// begin starts the loan that is on offer. From now on the manager's window decides. b.mu must be held.
func (b *bucket) begin(now time.Duration) {
	l := b.loan
	l.offered = false
	if l.state == nil {
		*b.window = l.window
		for _, p := range b.permits {
			p.window = b.window.Adopt(now, p.sent)
		}
	} else {
		*b.window = b.takeOut(l, now)
	}
	if rest := b.hold - now; rest > 0 {
		b.window.HoldFor(now, rest, b.class)
	}
	for _, p := range b.permits {
		p.number = 0
	}
	b.hold = 0
}

// takeOut returns the window of the lent state with times by our clock. It gives the requests in flight permits of this
// window.
func (b *bucket) takeOut(l *loan, now time.Duration) ratelimits.Window {
	s, low, high := b.session, l.low, l.high
	early := now + low
	w := &l.state.window
	for _, f := range l.state.flights {
		if p := b.flying(f.number); p != nil {
			p.window = f.permit.SentAt(p.sent+low).Shift(-high, -low)
		} else { // the request was not sent, and will not be sent with this permit
			w.Return(early, f.permit)
		}
	}
	for _, p := range b.permits {
		if !slices.ContainsFunc(l.state.flights, func(f flight) bool { return f.number == p.number }) {
			p.window = w.Adopt(early, s.sentTime(p.sent)).Shift(-high, -low)
		}
	}
	w.Shift(-high, -low)
	return *w
}

// loanUntil returns the time at which the loan ends, 0 if there is no loan. Each successful call of the session may
// move the end. b.mu must be held.
func (b *bucket) loanUntil() time.Duration {
	switch {
	case b.loan == nil:
		return 0
	case b.loan.alone:
		return b.loan.at + forever
	}
	longest := knowledge
	if b.window.Declared() {
		longest = declaredLoanTime
	}
	return min(b.loan.at+longest, b.session.believedUntil(b.loan.at))
}

// giveUp ends a loan that is on offer, and returns the state that was lent. b.mu must be held.
func (b *bucket) giveUp() {
	l := b.loan
	b.loan = nil
	b.session.loanEnded(l)
	if l.state != nil {
		b.returned = &returned{kept: l.state.encode(), version: l.state.version}
	}
	b.activate()
}

// endLoan returns the loan, so from now on all processes decide together. Normally the return is reported to the server
// with the next tick. If a process may be waiting for the bucket, the return is reported almost at once: only a moment
// later, so that the manager can report its waiting requests first. b.mu must be held.
func (b *bucket) endLoan(now time.Duration) {
	s, l := b.session, b.loan
	urgent := l.wanted || b.window.HoldWait(now) > 0 || now >= b.loanUntil() || len(b.permits) > 0
	b.loan = nil
	b.toldPeriod = max(b.toldPeriod, b.window.Period())
	s.loanEnded(l)
	low, high := s.offset()
	w, _, _ := ratelimits.DecodeWindow(b.window.Append(nil)) // a copy
	w.Shift(low, high)
	next := &state{version: version{life: rand.Int64()}, era: s.eraNumber(), window: w, owner: s.id}
	if l.state != nil {
		next.version, next.members, next.user, next.mixed = l.state.version, l.state.members, l.state.user, l.state.mixed
		if l.state.era != next.era {
			next.readmit(s.engineTime(now))
		}
	}
	next.member(s.id)
	for _, p := range b.permits {
		p.number = s.agents.next.Add(1)
		next.flights = append(next.flights, flight{s.id, p.number, p.window.Shift(low, high)})
	}
	b.returned = &returned{
		kept: next.encode(), version: next.version,
		alone: l.alone && b.users() > 1, wanted: l.wanted, slept: !s.knowsEngine(),
	}
	b.known, b.kept, b.knownAt, b.unused = next, b.returned.kept, now, 0
	b.activate()
	if urgent {
		b.due = true
		b.wakeAt(now, now)
	}
}

// restore merges the state of the returned loan into s, the state that the server has with the expected version.
func (b *bucket) restore(s *state, expected version, now time.Duration) {
	r, mine := b.returned, b.session.id
	if s.owner == mine {
		s.owner = ""
	}
	if r.wanted {
		s.mixed = now
	}
	was, err := decode(r.kept)
	switch {
	case err != nil: // cannot happen, because endLoan or giveUp has encoded it
	case expected == r.version && !r.alone && !r.slept && was.era == s.era:
		s.window, s.flights = was.window, was.flights
	default: // another process may have used the bucket during the loan, or the server has lost its state
		rest := was.window.Reset() - now
		if was.era != s.era {
			rest = min(rest, was.window.Period())
		}
		if r.slept {
			rest = was.window.Period()
		}
		if r.alone {
			rest = max(rest, settleTime)
		}
		s.recall(now, &was.window, rest)
	}
}

// recall merges the window that a process knew into the state of a bucket, because the server has lost its state or has
// an older one. It holds the bucket for rest. After that, one request is sent before all others. A declared limit is
// held for settleTime at most, because its period may be a day. After settleTime all sessions have reported their
// requests. These requests stay charged, and the other permits may be used.
func (s *state) recall(now time.Duration, w *ratelimits.Window, rest time.Duration) {
	if s.window.Declared() {
		s.window.Remember(now, w, now+rest)
		rest = min(rest, settleTime)
	}
	s.window.Recall(w.Limit(), w.Period())
	if !latenessOf(&s.window).known {
		latenessOf(w).expect(now, &s.window)
	}
	s.window.HoldFor(now, max(rest, time.Millisecond), max(w.HoldClass(now), ratelimits.ClassOK))
}

// goAlone lets this process use the bucket alone while the server is unavailable, if the outage policy allows it. b.mu
// must be held.
func (b *bucket) goAlone(now time.Duration) {
	policy, share := b.session.store.options.outage, 1
	switch {
	case b.loan != nil || policy < OutageShare || b.closed || b.calling:
		return
	case policy == OutageShare:
		share = b.users()
	}
	l := &loan{alone: true, share: share, at: now, window: b.guess(now, share)}
	b.returned = nil // when the new loan ends, endLoan returns a newer state
	b.accept(l)
}

// users returns how many sessions may use the bucket, as far as is known, including this one.
func (b *bucket) users() int { return max(b.session.sessions(), b.mates) }

// guess returns a window with 1/share of the bucket's limit, from what is known of the bucket.
func (b *bucket) guess(now time.Duration, share int) ratelimits.Window {
	b.outdate()
	known := b.known
	if known == nil {
		known = b.unknown()
	}
	s, late := known.window.State(b.session.engineTime(now)), latenessOf(&known.window)
	s.Reset = max(s.Reset-late.by, 0) // expect adds the lateness again below
	if share > 1 && s.Limit > 0 {
		// The other processes may have used the rest of the known window, and may have started another window since.
		s.Reset, s.Used = max(s.Reset, s.Period), s.Limit
		s.Limit = max(s.Limit/share, 1)
		s.Used = min(s.Used, s.Limit)
	}
	w := ratelimits.NewWindow(now, s)
	late.expect(now, &w)
	return w
}

// backAgain is called when the server is available again. If the process took the bucket during the outage, the
// manager's next call ends this loan. b.mu must be held.
func (b *bucket) backAgain() {
	if b.loan != nil && b.loan.alone {
		b.loan.wanted = true
	}
}

package shared

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// loan is a bucket that this process has for itself. The server lent it, or the process took it while the server was
// unavailable. A loan from the server lasts as long as the session, but no longer than the server certainly stores the
// bucket; the next permit brings a new loan.
type loan struct {
	state   *state            // the server's state when it lent the bucket; nil if the process took it
	offered bool              // whether the manager has not made a call since the loan began
	wanted  bool              // whether another session needs the bucket
	alone   bool              // whether the process took it while the server was unavailable
	share   int               // number of processes that share the limit, 1 for the whole limit
	at      time.Duration     // start of the call that brought the loan, or when the process took it
	window  ratelimits.Window // of a loan that the process took, by our clock

	low, high time.Duration // bounds of the times in the lent state minus ours
}

// declaredLoanTime bounds a loan of a declared limit. After the server has lost its key, the limit may be lent to a
// second process, and no response would show that.
const declaredLoanTime = time.Minute

// forever is the length of a loan without a known end.
const forever = 10 * 365 * 24 * time.Hour

// returned is a loan that has ended, until the server has its state.
type returned struct {
	kept    string  // the returned state, as the server stores it
	version version // version that was lent
	wanted  bool    // another session needs the bucket
	alone   bool    // other processes may have used the bucket at the same time
	slept   bool    // this process was suspended: responses may be much older than they seem
}

// seen returns a response scaled to the loan's share of the limit. If there is no loan or its share is 1, it returns r
// unchanged.
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

// hand records in a loan an outcome that the server does not know.
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
	if !ok && !o.unsent { // the request was sent after the call that brought the loan
		permit, ok = l.state.window.Adopt(now, s.sentTime(o.sent)), true
	}
	if ok {
		s.report(&l.state.window, now, permit, o)
	}
}

// begin starts the loan on offer: from now on the manager's window decides. b.mu must be held.
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

// takeOut returns the lent window with times by our clock, and moves the permits in flight to it.
func (b *bucket) takeOut(l *loan, now time.Duration) ratelimits.Window {
	s, low, high := b.session, l.low, l.high
	early := now + low
	w := &l.state.window
	for _, f := range l.state.flights {
		if p := b.flying(f.number); p != nil {
			p.window = f.permit.SentAt(p.sent+low).Shift(-high, -low)
		} else { // the request was never sent
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

// loanUntil returns when the loan ends, 0 if there is none. Successful calls of the session may move the end. b.mu must
// be held.
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

// giveUp ends a loan that is still on offer, and returns it as it was lent. b.mu must be held.
func (b *bucket) giveUp() {
	l := b.loan
	b.loan = nil
	b.session.loanEnded(l)
	if l.state != nil {
		b.returned = &returned{kept: l.state.encode(), version: l.state.version}
	}
	b.activate()
}

// endLoan returns the loan: from now on all processes decide together. The server learns of it with the next tick, or
// at once if a process may wait for the bucket. That call is made a moment later, so that the manager can report its
// waiters first. b.mu must be held.
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
	b.known, b.kept, b.knownAt = next, b.returned.kept, now
	b.activate()
	if urgent {
		b.due = true
		b.wakeAt(now, now)
	}
}

// restore merges the returned loan into s, the state that the server had at the expected version.
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
	case err != nil: // cannot happen: kept was encoded here
	case expected == r.version && !r.alone && !r.slept && was.era == s.era:
		s.window, s.flights = was.window, was.flights
	default: // another process used the bucket meanwhile, or the server lost its state
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

// recall merges the window that a process knew into the state of a bucket that the server has lost or set back. The
// bucket is held for rest, and then one request goes first. A declared limit is an exception, because its period may be
// a day: its known requests stay charged, and the other permits may be used after settleTime, when all sessions have
// reported their requests.
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

// goAlone takes the bucket for this process while the server is unavailable, if the outage policy allows it. b.mu must
// be held.
func (b *bucket) goAlone(now time.Duration) {
	policy, share := b.session.store.options.outage, 1
	switch {
	case b.loan != nil || policy < OutageShare || b.closed || b.calling:
		return
	case policy == OutageShare:
		share = b.users()
	}
	l := &loan{alone: true, share: share, at: now, window: b.guess(now, share)}
	b.returned = nil // endLoan will return a newer state
	b.accept(l)
}

// users returns how many sessions may use the bucket, as far as is known, this one included.
func (b *bucket) users() int { return max(b.session.sessions(), b.mates) }

// guess returns a window with 1/share of the limit, made from what is known of the bucket now.
func (b *bucket) guess(now time.Duration, share int) ratelimits.Window {
	b.outdate()
	known := b.known
	if known == nil {
		known = b.unknown()
	}
	s, late := known.window.State(b.session.engineTime(now)), latenessOf(&known.window)
	s.Reset = max(s.Reset-late.by, 0) // expect adds it again below
	if share > 1 && s.Limit > 0 {
		// The other processes may have used the rest of this window, and may have started another one that this process
		// does not know.
		s.Reset, s.Used = max(s.Reset, s.Period), s.Limit
		s.Limit = max(s.Limit/share, 1)
		s.Used = min(s.Used, s.Limit)
	}
	w := ratelimits.NewWindow(now, s)
	late.expect(now, &w)
	return w
}

// backAgain ends a loan that the process took while the server was unavailable. b.mu must be held.
func (b *bucket) backAgain() {
	if b.loan != nil && b.loan.alone {
		b.loan.wanted = true
	}
}

package shared

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// loan is a bucket that this process has for itself: lent by the server, or taken while that is away. One that was lent lasts as long as the
// session does, but no longer than the server certainly remembers it: then it is lent again with the next permit.
type loan struct {
	state   *state // as it was lent; nil if it was taken
	offered bool   // and not yet accepted
	wanted  bool
	alone   bool // taken while the server is away
	share   int
	at      time.Duration     // when the call was begun that brought it, or it was taken
	window  ratelimits.Window // of one that was taken, in our time

	low, high time.Duration // bounds of the times of the state that was lent minus ours
}

// declaredLoanTime is how long a declared limit is lent at most. No response would show that it was lent twice, as the server has lost its key.
const declaredLoanTime = time.Minute

// forever is when a loan ends of which it is not known.
const forever = 10 * 365 * 24 * time.Hour

// returned is what has become of a bucket that was lent, until the server has it.
type returned struct {
	kept    string  // the state
	version version // that was lent
	wanted  bool    // by somebody else
	lost    bool    // it is not known what became of the bucket
	alone   bool    // others may have used it by themselves at the same time
	slept   bool    // this process was suspended: what it has heard since may have been said long before
}

// seen returns a response as the window of a loan is to see it, nil if there is no loan.
func (l *loan) seen(r ratelimits.Response) ratelimits.Response {
	if l != nil && l.share > 1 && r.Limited {
		r.Limit = max(r.Limit/l.share, 1)
		r.Remaining = min(r.Remaining, r.Limit)
	}
	return r
}

// accept makes the loan that was offered the bucket's. Until the manager looks it is only offered. b.mu is held.
func (b *bucket) accept(l *loan) {
	b.loan, l.offered = l, true
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

// hand puts the outcome of a request that the server does not know of into a loan.
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
	if !ok && !o.unsent { // it was adopted after the call was made that brought the loan
		permit, ok = l.state.window.Adopt(now, s.sentTime(o.sent)), true
	}
	if ok {
		s.report(&l.state.window, now, permit, o)
	}
}

// begin lets the manager's window decide from now on. b.mu is held.
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

// takeOut returns the window that was lent, in our time, with the requests in flight.
func (b *bucket) takeOut(l *loan, now time.Duration) ratelimits.Window {
	s, low, high := b.session, l.low, l.high
	early := now + low
	w := &l.state.window
	for _, f := range l.state.flights {
		if p := b.flying(f.number); p != nil {
			p.window = f.permit.SentAt(p.sent+low).Shift(-high, -low)
		} else { // it was never sent
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

// loanUntil returns when the loan ends, 0 if there is none. It may be prolonged, or end, at any time. b.mu is held.
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

// giveUp returns the loan as it was when it was offered, or without a word if it may have been used. b.mu is held.
func (b *bucket) giveUp() {
	l := b.loan
	b.loan = nil
	b.session.loanEnded(l)
	switch {
	case l.state == nil:
	case l.offered:
		b.returned = &returned{kept: l.state.encode(), version: l.state.version}
	default:
		b.returned = &returned{version: l.state.version, lost: true}
	}
	b.activate()
}

// endLoan lets all processes together decide from now on. The server is told at once if anybody may wait for that, when the manager has said
// who waits here; else with the next tick. b.mu is held.
func (b *bucket) endLoan(now time.Duration) {
	s, l := b.session, b.loan
	urgent := l.wanted || b.window.HoldWait(now) > 0 || now >= b.loanUntil() || len(b.permits) > 0
	b.loan = nil
	s.loanEnded(l)
	low, high := s.offset()
	w, _, _ := ratelimits.DecodeWindow(b.window.Append(nil)) // a copy
	w.Shift(low, high)
	next := &state{version: version{life: rand.Int64()}, era: s.eraNumber(), window: w, owner: s.id}
	if l.state != nil {
		next.version, next.members, next.user, next.mixed = l.state.version, l.state.members, l.state.user, l.state.mixed
	}
	next.member(s.id)
	for _, p := range b.permits {
		p.number = s.agents.next.Add(1)
		next.flights = append(next.flights, flight{s.id, p.number, p.window.Shift(low, high)})
	}
	b.returned = &returned{kept: next.encode(), version: next.version, alone: l.alone && s.sessions() > 1, wanted: l.wanted, slept: !s.knowsEngine()}
	b.known, b.kept, b.knownAt = next, b.returned.kept, now
	b.activate()
	if urgent {
		b.due = true
		b.wakeAt(now, now)
	}
}

// restore takes in what has become of a bucket that was lent, in the place of a version of its state.
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
	case r.lost && expected == r.version:
		s.takeOver(now)
	case r.lost || err != nil:
	case expected == r.version && !r.alone && !r.slept && was.era == s.era:
		s.window, s.flights = was.window, was.flights
	default: // somebody else has had it meanwhile, or the server has forgotten it
		rest := was.window.Reset() - now
		if was.era != s.era {
			rest = min(rest, was.window.Period())
		}
		if r.slept {
			rest = max(rest, was.window.Period())
		}
		if r.alone {
			rest = max(rest, settleTime)
		}
		s.recall(now, &was.window, rest)
	}
}

// recall takes in what somebody knew of a bucket whose state may be older, or lost: what he knew of is waited out, and then one request
// goes first. Of a declared limit, whose period may be a day, what he knew of stays charged, and the rest may be sent when all have said
// what they have in flight.
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

// goAlone takes the bucket while the server is away, if the policy wants that. b.mu is held.
func (b *bucket) goAlone(now time.Duration) {
	policy, share := b.session.store.options.outage, 1
	switch {
	case b.loan != nil || policy < OutageShare || b.closed || b.calling:
		return
	case policy == OutageShare:
		share = b.session.sessions()
	}
	l := &loan{alone: true, share: share, at: now, window: b.guess(now, share)}
	b.returned = nil // the state that is returned in the end is the one that counts
	b.accept(l)
}

// guess is a window for a share of what is known of the bucket at the moment.
func (b *bucket) guess(now time.Duration, share int) ratelimits.Window {
	b.outdate()
	known := b.known
	if known == nil {
		known = b.unknown()
	}
	s, late := known.window.State(b.session.engineTime(now)), latenessOf(&known.window)
	s.Reset = max(s.Reset-late.by, 0) // which the window is told of
	if share > 1 && s.Limit > 0 {
		// The others may have used all that was left, and a window that we have not heard of.
		s.Reset, s.Used = max(s.Reset, s.Period), s.Limit
		s.Limit = max(s.Limit/share, 1)
		s.Used = min(s.Used, s.Limit)
	}
	w := ratelimits.NewWindow(now, s)
	late.expect(now, &w)
	return w
}

// backAgain ends a loan that was taken while the server was away. b.mu is held.
func (b *bucket) backAgain() {
	if b.loan != nil && b.loan.alone {
		b.loan.wanted = true
	}
}

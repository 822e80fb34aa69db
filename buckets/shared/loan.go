package shared

import (
	"math/rand/v2"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// loan is a bucket that this process has for itself: lent by the server, or taken while that is away. It lasts as long as the session
// does.
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

// forever is when a loan ends of which it is not known.
const forever = 10 * 365 * 24 * time.Hour

// returned is what has become of a bucket that was lent, until the server has it.
type returned struct {
	kept    string  // the state
	version version // that was lent
	wanted  bool    // by somebody else
	lost    bool    // it is not known what became of the bucket
	alone   bool    // others may have used it by themselves at the same time
}

// end takes in that a request has ended before the loan was accepted.
func (l *loan) end(b *bucket, t *ticket) {
	if l.state == nil {
		if !t.outcome.unsent {
			l.window.Report(t.outcome.at, l.window.Adopt(t.outcome.at, t.since), t.outcome.response)
		}
		return
	}
	now := b.session.now()
	early := b.session.engineTime(now)
	if permit, ok := l.state.land(b.session.id, t.number); ok {
		b.session.report(&l.state.window, early, permit, &t.outcome)
	}
}

// accept makes the loan that was offered the bucket's. All tickets are void, but those of requests in flight, until the loan
// is accepted.
func (b *bucket) accept(l *loan) {
	b.loan, l.offered = l, true
	if !l.alone {
		b.session.meter.count(&b.session.meter.counted.LoansTaken)
	}
	for id, t := range b.tickets {
		if t.stage != flying {
			delete(b.tickets, id)
			delete(b.alive, t.number)
		}
	}
	b.line, b.granted = fifo.Queue[*ticket]{}, fifo.Queue[*ticket]{}
	ended := b.ended
	b.ended, b.unsure = nil, nil
	for _, t := range ended {
		l.end(b, t)
	}
	b.stopTimer()
	b.activate()
}

// Loan returns a loan that is offered.
func (b *bucket) Loan(now time.Duration) *buckets.SharedLoan {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.loan
	if l == nil || !l.offered {
		return nil
	}
	l.offered = false
	offer := &buckets.SharedLoan{Processes: l.share, Permits: map[buckets.Ticket]ratelimits.Permit{}}
	if l.state == nil {
		offer.Window = l.window
		for id, t := range b.tickets {
			offer.Permits[id] = offer.Window.Adopt(now, t.since)
		}
	} else {
		offer.Window = b.takeOut(l, now, offer.Permits)
	}
	if rest := b.hold - now; rest > 0 {
		offer.Window.HoldFor(now, rest, b.class)
	}
	clear(b.tickets)
	clear(b.alive)
	b.hold = 0
	return offer
}

// takeOut returns the window that was lent, in our time, with the permits of what is in flight.
func (b *bucket) takeOut(l *loan, now time.Duration, permits map[buckets.Ticket]ratelimits.Permit) ratelimits.Window {
	s, low, high := b.session, l.low, l.high
	early := now + low
	w := &l.state.window
	for _, f := range l.state.flights {
		t := b.alive[f.number]
		if t == nil || t.stage != flying { // it was never sent
			w.Return(early, f.permit)
			continue
		}
		permits[t.id] = f.permit.SentAt(t.since+low).Shift(-high, -low)
	}
	for id, t := range b.tickets {
		if _, ok := permits[id]; !ok {
			permits[id] = w.Adopt(early, s.sentTime(t.since)).Shift(-high, -low)
		}
	}
	w.Shift(-high, -low)
	return *w
}

// Until returns when the loan ends.
func (b *bucket) Until() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loanUntil()
}

// loanUntil is Until. b.mu is held.
func (b *bucket) loanUntil() time.Duration {
	switch {
	case b.loan == nil:
		return 0
	case b.loan.alone:
		return b.loan.at + forever
	}
	return b.session.believedUntil(b.loan.at)
}

// Wanted reports that the loan is to be returned.
func (b *bucket) Wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loan != nil && b.loan.wanted
}

// giveUp returns the loan as it was when it was offered, or without a word if it may have been used. b.mu is held.
func (b *bucket) giveUp(now time.Duration) {
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

// Return ends a loan.
func (b *bucket) Return(now time.Duration, window *ratelimits.Window, permits []ratelimits.Permit) []buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	tickets := make([]buckets.Ticket, 0, len(permits))
	held, over := window.HoldWait(now) > 0, now >= b.loanUntil()
	l := b.loan
	b.loan = nil
	b.session.loanEnded(l)
	low, high := b.session.offset()
	w, _, _ := ratelimits.DecodeWindow(window.Append(nil)) // a copy
	w.Shift(low, high)
	s := &state{version: version{life: rand.Int64()}, era: b.session.eraNumber(), window: w, owner: b.session.id}
	if l != nil && l.state != nil {
		s.version, s.members, s.user, s.mixed = l.state.version, l.state.members, l.state.user, l.state.mixed
	}
	s.member(b.session.id)
	for _, permit := range permits {
		t := b.fly(permit.Sent())
		tickets = append(tickets, t.id)
		s.flights = append(s.flights, flight{b.session.id, t.number, permit.Shift(low, high)})
	}
	if l == nil {
		return tickets
	}
	b.returned = &returned{kept: s.encode(), version: s.version, alone: l.alone && b.session.sessions() > 1, wanted: l.wanted}
	b.known, b.kept, b.knownAt = s, b.returned.kept, now
	b.activate()
	if l.wanted || held || over || len(permits) > 0 {
		// Those who wait join one after the other when this has returned, and nobody of another process must come between.
		// Whoever calls holds a lock meanwhile that changed takes, so after that all have joined.
		b.due = true
		b.gathers = b.session.spawn(func() {
			b.notify()
			b.mu.Lock()
			defer b.mu.Unlock()
			b.gathers = false
			b.say(b.session.now())
		})
	} // else nobody waits for it: the next tick says it
	return tickets
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
	case expected == r.version && !r.alone && was.era == s.era:
		s.window, s.flights = was.window, was.flights
	default: // somebody else has had it meanwhile, or the server has forgotten it
		rest := was.window.Reset() - now
		if was.era != s.era {
			rest = min(rest, was.window.Period())
		}
		if r.alone {
			rest = max(rest, settleTime)
		}
		s.recall(now, &was.window, rest)
	}
}

// recall takes in what somebody knew of a bucket whose state may be older, or lost: what he knew of is waited out, and then one request
// goes first.
func (s *state) recall(now time.Duration, w *ratelimits.Window, rest time.Duration) {
	s.window.Recall(w.Limit(), w.Period())
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
	if b.outdate(); b.known == nil {
		return ratelimits.Window{}
	}
	s := b.known.window.State(b.session.engineTime(now))
	if share > 1 && s.Limit > 0 {
		// The others may have used all that was left, and a window that we have not heard of.
		s.Reset, s.Used = max(s.Reset, s.Period), s.Limit
		s.Limit = max(s.Limit/share, 1)
		s.Used = min(s.Used, s.Limit)
	}
	return ratelimits.NewWindow(now, s)
}

// backAgain ends a loan that was taken while the server was away. b.mu is held.
func (b *bucket) backAgain() {
	if b.loan != nil && b.loan.alone {
		b.loan.wanted = true
	}
}

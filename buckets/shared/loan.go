package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// loan is a bucket that this process has for itself: lent by the server, or taken while that is away.
type loan struct {
	number  int64 // 0 if it was taken
	until   time.Duration
	offered bool // and not yet accepted
	wanted  bool
	alone   bool // taken while the server is away
	share   int
	state   ratelimits.State
	at      time.Duration // when the state was taken
	over    []buckets.SharedOutcome
}

// forever is when a loan ends of which it is not known.
const forever = 10 * 365 * 24 * time.Hour

// ended takes in that a request has ended of which the state knows nothing.
func (l *loan) ended(t *ticket, r ratelimits.Response, unsent bool) {
	if !unsent {
		l.over = append(l.over, buckets.SharedOutcome{Sent: t.since, Response: r})
	}
}

// unused is the state of a loan that nobody accepted, or of which no more is known than that it was idle.
func (l *loan) unused(now time.Duration) ratelimits.State {
	s := l.state
	s.Reset = max(s.Reset-(now-l.at), 0)
	s.Hold = max(s.Hold-(now-l.at), 0)
	if s.Reset == 0 {
		s.Used = 0
	}
	return s
}

// accept makes the loan that was offered the bucket's. All tickets are void, but those of requests in flight, until the loan
// is accepted: their outcomes have to be handed over.
func (b *bucket) accept(l *loan, pending []outcome) {
	b.loan, l.offered = l, true
	for _, o := range pending {
		if !o.unsent {
			l.over = append(l.over, buckets.SharedOutcome{Sent: o.sent, Response: o.response})
		}
	}
	if hold := b.hold - l.at; hold > l.state.Hold {
		l.state.Hold, l.state.HoldClass = hold, b.class
	}
	for id, t := range b.tickets {
		if t.stage != flying {
			delete(b.tickets, id)
		}
	}
	clear(b.alive)
	b.line, b.granted, b.numbers = fifo.Queue[*ticket]{}, fifo.Queue[*ticket]{}, nil
	b.flights, b.outcomes, b.drops, b.hold = nil, nil, nil, 0
	b.stopTimer()
	b.activate()
}

// giveUp returns the loan as it was when it was offered, or without a word if it may have been used. b.mu is held.
func (b *bucket) giveUp(now time.Duration) {
	l := b.loan
	b.loan = nil
	b.returned = &returned{number: l.number, state: l.unused(now), at: now, lost: !l.offered}
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
	clear(b.tickets)
	over := l.over
	l.over = nil
	return &buckets.SharedLoan{State: l.unused(now), Ended: over, Processes: l.share}
}

// Until returns when the loan ends.
func (b *bucket) Until() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan == nil {
		return 0
	}
	return b.loan.until
}

// Wanted reports that the loan is to be returned.
func (b *bucket) Wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loan != nil && b.loan.wanted
}

// Return ends a loan.
func (b *bucket) Return(now time.Duration, s ratelimits.State, sent []time.Duration) []buckets.Ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	tickets := make([]buckets.Ticket, 0, len(sent))
	l := b.loan
	b.loan = nil
	for _, at := range sent {
		tickets = append(tickets, b.fly(at).id)
	}
	if l == nil {
		return tickets
	}
	b.returned = &returned{number: l.number, state: s, at: now, alone: l.alone && b.session.sessions() > 1}
	b.remember(now, s)
	b.activate()
	if l.wanted || l.until <= now || len(sent) > 0 || s.Hold > 0 {
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
	} // else nobody waits for it: it travels with the next beat, or with what comes before
	return tickets
}

// remember keeps what is known of a bucket that was lent, in case the server is away or has forgotten it.
func (b *bucket) remember(now time.Duration, s ratelimits.State) {
	k := &b.known
	k.at, k.limit, k.period = now, s.Limit, s.Period
	k.end, k.left = now+s.Reset, max(s.Limit-s.Used, 0)
	k.hold, k.holding = now+s.Hold, s.HoldClass
	k.ahead, k.others = 0, 0
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
	l := &loan{alone: true, until: now + forever, share: share, state: b.guess(now), at: now}
	if b.returned != nil { // it never got there: the state that is returned in the end is the one that counts
		l.number, b.returned = b.returned.number, nil
	}
	b.accept(l, b.outcomes)
}

// policyShares reports that others go on by themselves with their share of every limit.
func policyShares(s *session) bool { return s.store.options.outage == OutageShare && s.sessions() > 1 }

// guess is what is known of the window at the moment.
func (b *bucket) guess(now time.Duration) ratelimits.State {
	k := &b.known
	s := ratelimits.State{Limit: k.limit, Period: k.period, Hold: max(k.hold-now, 0), HoldClass: k.holding}
	if b.returned != nil {
		s.Stamp, s.Unlimited = b.returned.state.Stamp, b.returned.state.Unlimited
	}
	switch {
	case policyShares(b.session) && k.limit > 0:
		// The others may have used all that was left, and a window that we have not heard of.
		s.Reset, s.Used = max(k.end-now, k.period), k.limit
	case k.end > now:
		out := b.granted.Len() + len(b.outcomes)
		for _, t := range b.tickets {
			if t.stage == flying {
				out++
			}
		}
		s.Reset, s.Used = k.end-now, max(k.limit-k.left-out, 0)
	}
	return s
}

// backAgain ends a loan that was taken while the server was away. b.mu is held.
func (b *bucket) backAgain() {
	if b.loan != nil && b.loan.alone {
		b.loan.wanted = true
	}
}

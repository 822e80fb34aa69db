package ratelimits

import (
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// Kind is the way in which a bucket fills up again. No header names it (most of Discord's buckets have been sliding since
// November 2022, some stayed fixed), so it is told from successive responses.
type Kind uint8

const (
	// KindUnproven: not told apart yet. Treated so that every kind is safe: nothing more is sent than was counted, and all
	// of it comes back when the latest reset that any response spoke of has certainly passed.
	KindUnproven Kind = iota
	// KindFixed: all requests come back together when the window closes.
	KindFixed
	// KindLog: each request comes back a period after it was processed.
	KindLog
	// KindLeaky: one request after the other comes back, each a limit-th part of the period after the one before.
	KindLeaky
)

var kindNames = [...]string{"unproven", "fixed", "sliding log", "leaky"}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// tick is the precision of Discord's decimals: a value is at most one millisecond away from what the server meant.
const tick = time.Millisecond

// sample is one successful response that carried limits.
type sample struct {
	after          time.Duration // reset-after
	spent          int32         // limit - remaining, at least 1
	sent, received time.Duration
}

// reset is the interval in which the instant lies that the sample's reset-after speaks of.
func (s *sample) reset() interval {
	return interval{s.sent + s.after - tick, s.received + s.after + tick}
}

// evidence tells the kinds apart. It compares every response with a reference, the first one of the window.
//
// Two facts need no clock, because they compare the server's numbers with each other. In a sliding log, reset-after is
// always the whole period. In a leaky bucket, it grows with the number of requests that are spent. So a response that
// spent more than another and yet has a shorter reset-after can only come from a fixed window. The other way round,
// within one window's time, reset-after that grows with what is spent is leaky, and one that stays although time went by
// is a log.
//
// A verdict needs several such observations, and more of them each time it was wrong.
type evidence struct {
	reference sample
	has       bool
	favourite Kind  // for which the latest observations spoke
	votes     uint8 // how many of them, without another in between
	distrust  uint8
	series    *series // once a response counted more requests than the reference, or found another one charged
}

// series is what several responses show together.
type series struct {
	// The time in which a leaky bucket gives one request back lies between these, as long as all samples agree.
	slotLow, slotHigh time.Duration
	counts            uint64 // which numbers of spent requests have agreed, as bits

	// When the outcomes before the latest came of those requests that are charged: should it turn out to be a log, their
	// places come back a period later.
	earlier []time.Duration
}

// votesNeeded is how many observations prove a kind. A fixed window is proven by the first, as no sliding bucket can answer
// so; the signs of the others could also be given by a fixed window under unusual latencies.
var votesNeeded = [KindLeaky + 1]uint8{KindFixed: 1, KindLog: 3, KindLeaky: 2}

const (
	leakyCounts    = 3 // different numbers of spent requests that must agree on the slot where time proves nothing
	maxDistrust    = 2
	maxVotes       = 100 // more than are ever needed
	maxEarlier     = 64  // outcomes whose times are kept
	unboundedSlot  = longest
	likelyDistance = 4 * tick // between the processing of two requests, to be seen through the rounding of both
)

// weigh looks at one more response and returns the kind that it proves, or KindUnproven if it proves none.
func (e *evidence) weigh(s *sample) Kind {
	if !e.has {
		if e.series != nil {
			e.series.narrowSlot(s)
		}
		e.reference, e.has = *s, true
		return KindUnproven
	}
	r := e.reference
	before := s.received < r.reset().low // the reference's window was certainly still open
	if s.spent > r.spent && s.after < r.after-2*tick || s.spent < r.spent && s.after > r.after+2*tick {
		e.follow(s)
		return e.vote(KindFixed)
	}
	consistent := false
	if e.series != nil || s.spent > r.spent {
		consistent = e.begin().narrowSlot(s)
	}
	e.follow(s)
	switch {
	case s.spent <= r.spent:
		return KindUnproven
	case consistent && e.series.filled(&r, s) && (e.series.agreed() || before && s.after > r.after+2*tick && e.series.slotHigh < unboundedSlot):
		return e.vote(KindLeaky)
	case !before:
		return KindUnproven
	case s.after >= r.after-2*tick && s.after <= r.after+2*tick && distinct(&r, s):
		return e.vote(KindLog)
	}
	return KindUnproven
}

// follow replaces the reference when its window may be over.
func (e *evidence) follow(s *sample) {
	if !e.has || s.received >= e.reference.reset().low {
		e.reference, e.has = *s, true
	}
}

// begin returns the series, which begins with the reference.
func (e *evidence) begin() *series {
	if e.series == nil {
		e.series = &series{}
		if e.has {
			e.series.narrowSlot(&e.reference)
		}
	}
	return e.series
}

// remember keeps when the outcome before the latest came, which is still charged. It is rounded up to a tick, which is as good
// and takes less room at rest.
func (e *evidence) remember(earlier time.Duration) {
	s := e.begin()
	s.earlier = append(s.earlier, (earlier + tick - 1).Truncate(tick))
}

// trim keeps the times of so many outcomes, with the latest.
func (e *evidence) trim(charged int32) {
	if s := e.series; s != nil {
		if excess := len(s.earlier) - min(max(int(charged)-1, 0), maxEarlier); excess > 0 {
			s.earlier = slices.Delete(s.earlier, 0, excess)
		}
	}
}

// distinct reports that the second request was processed some time after the first, so that the reset-after of a fixed
// window would have become visibly shorter. Half of a round trip is not certain, which is why one vote is not enough.
func distinct(first, second *sample) bool {
	shorterTrip := min(first.received-first.sent, second.received-second.sent)
	return second.sent >= first.received && second.sent-first.received+shorterTrip/2 > likelyDistance
}

func (e *evidence) vote(k Kind) Kind {
	if k != e.favourite {
		e.favourite, e.votes = k, 0
	}
	e.votes = min(e.votes+1, maxVotes)
	if e.votes < votesNeeded[k]<<e.distrust {
		return KindUnproven
	}
	return k
}

// narrowSlot takes in what one response says about the slot of a leaky bucket: with n requests spent, reset-after is more
// than n-1 slots and at most n. It reports whether all samples still agree; if not, it starts again from this one.
func (s *series) narrowSlot(m *sample) bool {
	low := (m.after - tick) / time.Duration(m.spent)
	high := unboundedSlot
	if m.spent > 1 {
		high = (m.after + tick) / time.Duration(m.spent-1)
	}
	agrees := s.counts != 0 && low <= s.slotHigh && high >= s.slotLow
	if !agrees {
		s.slotLow, s.slotHigh, s.counts = low, high, 0
	}
	s.slotLow, s.slotHigh = max(s.slotLow, low), min(s.slotHigh, high)
	s.counts |= 1 << (uint(m.spent) % 64)
	return agrees
}

// filled reports that a leaky bucket can have got from one response to the other: each request moves the time at which it is
// full again by a slot.
func (s *series) filled(fewer, more *sample) bool {
	return more.reset().high-fewer.reset().low >= time.Duration(more.spent-fewer.spent)*s.slotLow
}

// agreed reports that so many different counts agree on one slot that it is no coincidence.
func (s *series) agreed() bool {
	return bits.OnesCount64(s.counts) >= leakyCounts && s.slotHigh > likelyDistance && s.slotHigh < s.slotLow+s.slotLow/4
}

// forget drops what was observed, after the limit changed or a verdict was contradicted.
func (e *evidence) forget() { *e = evidence{distrust: e.distrust} }

// wrong makes the next verdict harder to reach, after one led to a 429.
func (e *evidence) wrong() {
	e.forget()
	e.distrust = min(e.distrust+1, maxDistrust)
}

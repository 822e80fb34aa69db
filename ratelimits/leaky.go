package ratelimits

import "time"

// A leaky bucket (the generic cell rate algorithm) knows only when it will be empty, which is what reset-after says. Each request
// moves that instant one slot later: with n requests spent, reset-after is more than n-1 slots and at most n.

// leakyEvidence is what a leaky bucket has said: its slot is in between. High is 0 if nothing is known.
type leakyEvidence struct{ slot interval }

// refutes allows for a Remaining that lags behind the level by one request (measured in 2026), and for a bucket that opens
// late: it still counts requests whose slots are over by its reset-after.
func (e *leakyEvidence) refutes(s *sample, latest interval, late time.Duration) bool {
	slot := interval{
		(s.after - s.rounding - tick) / time.Duration(s.spent+1),
		(s.after + late + tick) / time.Duration(max(s.spent-1, 1)),
	}
	if e.slot.high == 0 {
		e.slot = slot
		return false
	}
	e.slot = e.slot.intersect(slot)
	return e.slot.low > e.slot.high || latest.farthest(s.reset) < e.slot.low
}

// fills is when a leaky bucket has certainly given back the place of a request of whose counting nothing was said: so many slots
// after everything else, and a full bucket's time at most.
func (e *leakyEvidence) fills(now, last time.Duration, slots, limit int32) time.Duration {
	return min(max(now, last)+times(int(slots), e.slot.high), now+times(int(limit), e.slot.high), now+LongestTrust)
}

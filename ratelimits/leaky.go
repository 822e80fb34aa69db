package ratelimits

import "time"

// A leaky bucket (the generic cell rate algorithm) knows only when it will be empty, and reset-after is the time until
// the bucket is empty. Each request delays that moment by one slot, which is the period divided by the limit. When the
// bucket counts n requests, reset-after is more than n-1 slots and at most n slots.

// leakyEvidence has the bounds of a leaky bucket's slot, as responses have shown them. slot.high is 0 if nothing is
// known.
type leakyEvidence struct{ slot interval }

// refutes reports whether no leaky bucket can have given a response. A Remaining that is one too high does not refute a
// leaky bucket (measured in 2026). A bucket that opens late still counts requests of past slots, so its lateness is
// added to the reset.
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

// fills returns the latest time at which the place of a request is free again if no response has counted that request.
// This time is a number of slots after last, or after now if last has passed. It is no later than the time at which a
// full bucket would be empty.
func (e *leakyEvidence) fills(now, last time.Duration, slots, limit int32) time.Duration {
	return min(max(now, last)+times(int(slots), e.slot.high), now+times(int(limit), e.slot.high), now+LongestTrust)
}

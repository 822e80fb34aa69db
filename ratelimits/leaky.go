package ratelimits

import "time"

// A leaky bucket (the generic cell rate algorithm) knows only when it will be empty, and reset-after is that time. Each
// request delays it by one slot: with n requests spent, reset-after is more than n-1 slots and at most n slots.

// leakyEvidence is what responses have said about a leaky bucket: bounds of its slot. high is 0 if nothing is known.
type leakyEvidence struct{ slot interval }

// refutes reports whether no leaky bucket can have given a response. It allows for a Remaining that lags behind the
// level by one request (measured in 2026). It also allows for a bucket that opens late and still counts requests of
// past slots.
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

// fills returns when a leaky bucket has certainly freed the place of a request that no response has counted: the given
// number of slots after all other requests, but at most the time in which a full bucket empties from now.
func (e *leakyEvidence) fills(now, last time.Duration, slots, limit int32) time.Duration {
	return min(max(now, last)+times(int(slots), e.slot.high), now+times(int(limit), e.slot.high), now+LongestTrust)
}

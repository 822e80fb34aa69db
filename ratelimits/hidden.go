package ratelimits

import "time"

// hiddenLimit remembers how much a limit let through that no header shows: the shared ones, of a channel say. It is only met
// by a 429, and a burst would meet it with everything that is in flight. So as many as last time go as they like, and the
// ones after that one at a time, which meets it with one.
type hiddenLimit struct {
	room  int32 // how many were let through last time; 0: not known
	until time.Duration
}

// refuse takes in that the limit was met after so many had passed, and that nothing may leave for wait.
func (h *hiddenLimit) refuse(now, wait time.Duration, passed int32) {
	if passed > 0 { // the first of those that were in flight together
		h.room = passed
	}
	h.until = max(h.until, now+3*wait) // met again within that time, or forgotten
}

// near reports that the limit may be met by the next request, when so many have passed or are in flight, so that it should be
// the only one.
func (h *hiddenLimit) near(now time.Duration, passed int32) bool {
	return h.room > 0 && now < h.until && passed >= h.room
}

// over reports that the limit is forgotten: so many have passed since it was last met.
func (h *hiddenLimit) over(now time.Duration, passed int32) bool {
	return now >= h.until && (h.room == 0 || passed > 0)
}

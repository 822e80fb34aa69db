package ratelimits

import "time"

// Throttle is a hold: a time before which nothing may be sent. It can only be extended: a shorter hold never shortens a
// longer one. The zero value holds nothing. It corresponds to the manual rate limiter of hikari (a Discord library for
// Python), without the queue.
type Throttle struct {
	until time.Duration
}

// Extend holds for d from now on if that is longer than the existing hold, and reports whether it was longer. A d of
// zero or less has no effect; a d of more than a hundred years is reduced to that.
func (t *Throttle) Extend(now, d time.Duration) bool {
	until := now + min(d, longest)
	if d <= 0 || until <= t.until {
		return false
	}
	t.until = until
	return true
}

// Wait returns how long the hold still lasts, 0 if there is none.
func (t Throttle) Wait(now time.Duration) time.Duration { return max(t.until-now, 0) }

// Until returns the time at which the hold ends. It is in the past if there is no hold.
func (t Throttle) Until() time.Duration { return t.until }

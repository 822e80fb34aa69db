package ratelimits

import "time"

// Throttle is a hold: a time before which nothing may be sent. A hold can only be extended; a shorter one has no
// effect. The zero value is no hold. Throttle corresponds to the manual rate limiter of hikari (a Discord library for
// Python), but it has no queue.
type Throttle struct {
	until time.Duration
}

// Extend sets a hold of d from now on if that is longer than the existing hold, and reports whether it was longer. If d
// is zero or negative, Extend has no effect. A d of more than a hundred years counts as a hundred years.
func (t *Throttle) Extend(now, d time.Duration) bool {
	until := now + min(d, longest)
	if d <= 0 || until <= t.until {
		return false
	}
	t.until = until
	return true
}

// Wait returns the rest of the hold, 0 if there is no hold.
func (t Throttle) Wait(now time.Duration) time.Duration { return max(t.until-now, 0) }

// Until returns the time at which the hold ends. It is in the past if there is no hold.
func (t Throttle) Until() time.Duration { return t.until }

package shared

import "time"

// clockMemory is how long after a reply the server's clock is known well enough: clocks drift apart by a millisecond in that time at most.
const clockMemory = 10 * time.Second

// engineClock estimates the server's clock from what replies say of it: it was read between the start and the end of the
// call. All times are since 1970 by that clock, or since the origin by ours.
type engineClock struct {
	known     bool
	low, high time.Duration // bounds of the server's time minus ours
	at        time.Duration
	set       time.Duration // when it was known that it, or ours, had been set: what was asked before says nothing
}

// tell takes in that the server's clock stood at engine, in whole microseconds, between start and end. It reports whether it was set
// since the last time.
func (c *engineClock) tell(start, end, engine time.Duration) (stepped bool) {
	if start < c.set {
		return false
	}
	low, high := engine-end, engine+time.Microsecond-start
	if c.known {
		// Clocks drift apart: what was learnt earlier is less certain, by 1 in 1000, far more than clocks do.
		drift := max(end-c.at, 0) / 1000
		c.low, c.high = c.low-drift, c.high+drift
	}
	apart := c.known && (low > c.high || high < c.low)
	stepped = c.known && (low > c.high+stepSlack || high < c.low-stepSlack)
	if !c.known || apart {
		c.low, c.high, c.set = low, high, end
	} else {
		c.low, c.high = max(c.low, low), min(c.high, high)
	}
	c.known, c.at = true, end
	return stepped
}

// earliest returns a time of the server's that is certainly not later than t of ours.
func (c *engineClock) earliest(t time.Duration) time.Duration { return t + c.low }

// latest returns a time of the server's that is certainly not earlier than t of ours.
func (c *engineClock) latest(t time.Duration) time.Duration { return t + c.high }

// ceilMillis counts the milliseconds that have begun.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// millis is a time in a reply. One that no script of ours says is cut, so that there is room to add.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), forever.Milliseconds())) * time.Millisecond
}

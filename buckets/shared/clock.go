package shared

import "time"

// clockMemory is how long a measurement of the server's clock is precise enough. In that time clocks drift by a
// millisecond at most.
const clockMemory = 10 * time.Second

// stepSlack is the largest deviation of the server's clock that does not count as a step.
const stepSlack = 250 * time.Millisecond

// engineClock estimates the server's clock from the time in each reply, which the server read between the start and the
// end of the call. The server's times count from 1970, ours from the session's origin.
type engineClock struct {
	known     bool
	low, high time.Duration // bounds of the server's time minus ours
	at        time.Duration // end of the latest call
	set       time.Duration // when a step of a clock was last noticed; earlier calls are ignored
}

// tell records that at some time between start and end the server's clock showed engine, in whole microseconds. It
// reports whether the server's clock was set since the last call.
func (c *engineClock) tell(start, end, engine time.Duration) (stepped bool) {
	if start < c.set {
		return false
	}
	low, high := engine-end, engine+time.Microsecond-start
	// The earlier bounds are widened by a thousandth of the time since the last call, which is far more than clocks drift.
	drift := max(end-c.at, 0) / 1000
	before, after := c.low-drift, c.high+drift
	if c.known {
		c.low, c.high = before, after
	}
	apart := c.known && (low > after || high < before)
	// If known is false, perhaps only our clock stood still. The server's clock went on meanwhile, so if the server's
	// clock is behind, it was set.
	stepped = c.known && low > after+stepSlack || c.at > 0 && high < before-stepSlack
	if !c.known || apart {
		c.low, c.high, c.set = low, high, end
	} else {
		c.low, c.high = max(c.low, low), min(c.high, high)
	}
	c.known, c.at = true, end
	return stepped
}

// earliest returns a time by the server's clock that is certainly not later than t by ours.
func (c *engineClock) earliest(t time.Duration) time.Duration { return t + c.low }

// latest returns a time by the server's clock that is certainly not earlier than t by ours.
func (c *engineClock) latest(t time.Duration) time.Duration { return t + c.high }

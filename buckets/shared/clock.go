package shared

import "time"

// engineClock estimates the server's clock, from what replies say of it: it was read between the start and the end of the
// call. Milliseconds, as scripts count.
type engineClock struct {
	known     bool
	low, high int64 // bounds of engine time minus ours
	at        time.Duration
}

// tell takes in that the server's clock stood at engine between start and end.
func (c *engineClock) tell(start, end time.Duration, engine int64) {
	low, high := engine-ceilMillis(end), engine+1-start.Milliseconds()
	if c.known {
		// Clocks drift apart: what was learnt earlier is less certain, by 1 in 1000, far more than clocks do.
		drift := (end-c.at).Milliseconds()/1000 + 1
		c.low, c.high = c.low-drift, c.high+drift
	}
	if !c.known || low > c.high || high < c.low { // stepped
		c.low, c.high = low, high
	} else {
		c.low, c.high = max(c.low, low), min(c.high, high)
	}
	c.known, c.at = true, end
}

// earliest returns an engine time that is certainly not later than t of ours, 0 if the clock is not known.
func (c *engineClock) earliest(t time.Duration) int64 {
	if !c.known {
		return 0
	}
	return t.Milliseconds() + c.low
}

// ceilMillis counts the milliseconds that have begun.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// millis is a time in a reply. One that no script of ours says is cut, so that there is room to add.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), forever.Milliseconds())) * time.Millisecond
}

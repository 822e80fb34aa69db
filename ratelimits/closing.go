package ratelimits

import "time"

// interval is a span of time in which something certainly lies.
type interval struct{ low, high time.Duration }

func (i interval) intersect(o interval) interval {
	return interval{max(i.low, o.low), min(i.high, o.high)}
}

// closing is what responses have said of when the current window closes. The zero value is a window of which none has.
type closing struct {
	known  bool
	single bool          // all of them certainly spoke of the same window
	within interval      // when it closes, if they did
	latest time.Duration // when it closes at the latest, if they did not; may be set before anything is known
}

// narrow takes in one more response. The window is at least as long as period: resets that cannot be that far apart are the
// same one.
func (c *closing) narrow(reset interval, period time.Duration) {
	if !c.known {
		c.known, c.single, c.within = true, true, reset
	} else {
		c.single = c.single && max(reset.high-c.within.low, c.within.high-reset.low) < period
		c.within = c.within.intersect(reset)
	}
	c.latest = max(c.latest, reset.high)
}

// at returns the earliest moment at which it is certain that the window has closed: the end of the intersection, if the
// bucket is fixed and all responses spoke of one window; otherwise the latest of all.
func (c *closing) at(kind Kind) time.Duration {
	if kind == KindFixed && c.single && c.within.low <= c.within.high {
		return c.within.high
	}
	return c.latest
}

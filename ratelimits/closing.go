package ratelimits

import "time"

// interval is a span of time in which something certainly lies.
type interval struct{ low, high time.Duration }

func (i interval) intersect(o interval) interval {
	return interval{max(i.low, o.low), min(i.high, o.high)}
}

// closing is what responses have said of when the current window closes. The zero value is a window of which none has.
type closing struct {
	known   bool
	single  bool  // all of them certainly spoke of the same window
	denials uint8 // responses in a row that contradict low, below
	// leastSpent is of the response with the shortest reset-after, which is least.
	leastSpent int32
	least      time.Duration

	within interval      // when it closes, if they did
	latest time.Duration // when it closes at the latest, if they did not; may be set before anything is known

	// The response that spoke of the latest reset: the earliest moment of that, and when it came.
	low, saidAt time.Duration
}

// enoughDenials responses in a row are believed against one that promised a later reset than they do.
const enoughDenials = 2

// narrow takes in one more response. The window is at least as long as period: resets that cannot be that far apart are the
// same one.
func (c *closing) narrow(now time.Duration, reset interval, period time.Duration) {
	if !c.known {
		c.known, c.single, c.within = true, true, reset
	} else {
		c.single = c.single && max(reset.high-c.within.low, c.within.high-reset.low) < period
		c.within = c.within.intersect(reset)
	}
	if reset.high > c.latest {
		c.latest, c.low, c.saidAt = reset.high, reset.low, now
	}
}

// denied reports that responses contradict an earlier one again and again. Whatever the kind, the reset that a bucket speaks of
// moves only forwards; so a later response with an earlier reset means that one of the two is wrong, or that the window
// has become shorter. One alone could be the wrong one.
func (c *closing) denied(reset interval, sent time.Duration) bool {
	if !c.known || sent < c.saidAt || reset.high >= c.low {
		c.denials = 0
		return false
	}
	c.denials++
	return c.denials >= enoughDenials
}

// at returns the earliest moment at which it is certain that the window has closed: the end of the intersection, if the
// bucket is fixed and all responses spoke of one window; otherwise the latest of all.
func (c *closing) at(kind Kind) time.Duration {
	if kind == KindFixed && c.single && c.within.low <= c.within.high {
		return c.within.high
	}
	return c.latest
}

// compare takes in how many requests a response of this window had counted, and reports whether a fixed window can have answered
// so, after the others: whoever is counted later is told a shorter reset-after.
func (c *closing) compare(m sample) bool {
	if c.single && c.least > 0 && m.spent > c.leastSpent && m.after > c.least+2*tick {
		return false
	}
	if c.least == 0 || m.after < c.least {
		c.least, c.leastSpent = m.after, m.spent
	}
	return true
}

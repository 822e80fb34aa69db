package limitertest

import "time"

// kind says how a bucket counts. Discord has all of them, and nothing in its headers tells them apart.
type kind string

const (
	fixed   kind = "fixed"   // a window that forgets all its requests at once
	sliding kind = "sliding" // a log: each request takes a place for a period
	leaky   kind = "leaky"   // one place comes back every period/limit
)

var kinds = []kind{fixed, sliding, leaky}

// quota is a limit in numbers.
type quota struct {
	kind   kind
	limit  int
	period time.Duration
}

// counter counts what is processed in one bucket.
type counter struct {
	quota
	end   time.Time   // fixed: when the window closes
	used  int         // fixed: in this window
	log   []time.Time // sliding: the processed ones of the last period, oldest first
	empty time.Time   // leaky: when everything has come back
}

// interval is in what time a leaky bucket gives one place back.
func (c *counter) interval() time.Duration {
	return (c.period + time.Duration(c.limit) - 1) / time.Duration(c.limit)
}

// advance forgets what is over.
func (c *counter) advance(now time.Time) {
	if !now.Before(c.end) {
		c.used, c.end = 0, time.Time{}
	}
	for len(c.log) > 0 && !now.Before(c.log[0].Add(c.period)) {
		c.log = c.log[1:]
	}
	if c.empty.Before(now) {
		c.empty = now
	}
}

// take counts a request, or reports that there is no room for it.
func (c *counter) take(now time.Time) bool {
	if c.remaining(now) < 1 {
		return false
	}
	switch c.kind {
	case fixed:
		if c.end.IsZero() {
			c.end = now.Add(c.period)
		}
		c.used++
	case sliding:
		c.log = append(c.log, now)
	case leaky:
		c.empty = c.empty.Add(c.interval())
	}
	return true
}

func (c *counter) remaining(now time.Time) int {
	c.advance(now)
	switch c.kind {
	case fixed:
		return max(c.limit-c.used, 0)
	case sliding:
		return max(c.limit-len(c.log), 0)
	}
	level := c.empty.Sub(now)
	return int(max(time.Duration(c.limit)*c.interval()-level, 0) / c.interval())
}

// resetAfter is the time until the bucket is full again, retryAfter that until it has room for one.
func (c *counter) resetAfter(now time.Time) time.Duration {
	c.advance(now)
	switch {
	case c.kind == leaky:
		return c.empty.Sub(now)
	case c.kind == sliding && len(c.log) > 0:
		return c.log[len(c.log)-1].Add(c.period).Sub(now)
	case c.kind == fixed && !c.end.IsZero():
		return c.end.Sub(now)
	}
	return 0
}

func (c *counter) retryAfter(now time.Time) time.Duration {
	if c.remaining(now) > 0 {
		return 0
	}
	switch c.kind {
	case sliding:
		return c.log[0].Add(c.period).Sub(now)
	case leaky:
		return c.empty.Sub(now) - time.Duration(c.limit-1)*c.interval()
	}
	return c.end.Sub(now)
}

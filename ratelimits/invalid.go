package ratelimits

import (
	"iter"
	"time"
)

const (
	// DefaultInvalidLimit and DefaultInvalidPeriod are Discord's limit: an IP address that causes DefaultInvalidLimit
	// invalid responses within DefaultInvalidPeriod is banned (Discord's documentation).
	DefaultInvalidLimit  = 10_000
	DefaultInvalidPeriod = 10 * time.Minute

	// invalidParts is the number of parts into which the period is divided. An invalid response may count for one part too
	// long.
	invalidParts = 60
)

// InvalidCounter counts invalid responses ([Response.Invalid]), so that a client can stay below the number for which
// Discord bans an IP address. The server's period may begin at any time, so each response counts for a whole period.
//
// An InvalidCounter is not safe for concurrent use. Time must not run backwards.
type InvalidCounter struct {
	part   time.Duration
	counts [invalidParts + 1]int32 // numbers of invalid responses in the latest parts, a ring buffer
	total  int                     // sum of counts
	newest int64                   // number of the latest part, counted from time 0
}

// NewInvalidCounter returns a counter for the given period, which must be positive.
func NewInvalidCounter(period time.Duration) *InvalidCounter {
	return &InvalidCounter{part: max(min(period, longest)/invalidParts, 1)}
}

// Add counts n invalid responses that came at the given time. For a new response this is now. For a response from
// another counter it is now minus the age that the other counter's Counts yields.
func (c *InvalidCounter) Add(at time.Duration, n int) {
	c.forget(at)
	n = min(n, mostCounted-c.total)
	c.counts[c.newest%int64(len(c.counts))] += int32(n)
	c.total += n
}

// Used returns the number of invalid responses in the period that ends now.
func (c *InvalidCounter) Used(now time.Duration) int {
	c.forget(now)
	return c.total
}

// forget drops the counts of parts that ended at least one period before now.
func (c *InvalidCounter) forget(now time.Duration) {
	part := int64(now / c.part)
	if part-c.newest > int64(len(c.counts)) {
		c.newest = part - int64(len(c.counts))
	}
	for c.newest < part {
		c.newest++
		count := &c.counts[c.newest%int64(len(c.counts))]
		c.total -= int(*count)
		*count = 0
	}
}

// Counts yields ages of invalid responses and, for each age, the number of responses. The oldest come first. Ages are
// exact to half a part.
func (c *InvalidCounter) Counts(now time.Duration) iter.Seq2[time.Duration, int] {
	return func(yield func(time.Duration, int) bool) {
		for part, n := range c.parts(now) {
			if !yield(now-min(time.Duration(part)*c.part+c.part/2, now), n) {
				return
			}
		}
	}
}

// ComesBack returns the time until the oldest invalid responses are no longer counted. It returns 0 if there are none.
func (c *InvalidCounter) ComesBack(now time.Duration) time.Duration {
	for part := range c.parts(now) {
		return time.Duration(part+int64(len(c.counts)))*c.part - now
	}
	return 0
}

// parts yields the number of each part with invalid responses, and how many it has. The oldest part comes first.
func (c *InvalidCounter) parts(now time.Duration) iter.Seq2[int64, int] {
	return func(yield func(int64, int) bool) {
		c.forget(now)
		size := int64(len(c.counts))
		for part := max(c.newest-size+1, 0); part <= c.newest; part++ {
			if n := c.counts[part%size]; n > 0 && !yield(part, int(n)) {
				return
			}
		}
	}
}

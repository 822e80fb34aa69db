package ratelimits

import (
	"iter"
	"time"
)

const (
	// DefaultInvalidLimit and DefaultInvalidPeriod are Discord's limit: an IP address with that many invalid responses
	// in that time is banned (Discord's documentation).
	DefaultInvalidLimit  = 10_000
	DefaultInvalidPeriod = 10 * time.Minute

	// invalidParts is the number of parts of the period. An invalid response may be forgotten one part too late.
	invalidParts = 60
)

// InvalidCounter counts invalid responses ([Response.Invalid]), so that a client can stay below the number for which
// Discord bans an IP address. The server's period may begin at any time, so each response counts for one period.
//
// An InvalidCounter is not safe for concurrent use. Time must not run backwards.
type InvalidCounter struct {
	part   time.Duration
	counts [invalidParts + 1]int32 // invalid responses in the latest parts, a ring
	total  int                     // sum of counts
	newest int64                   // number of the latest part, counted from time 0
}

// NewInvalidCounter returns a counter of the invalid responses in any period, which must be positive.
func NewInvalidCounter(period time.Duration) *InvalidCounter {
	return &InvalidCounter{part: max(min(period, longest)/invalidParts, 1)}
}

// Add counts n invalid responses of the given time: now for a response that has just come, or now minus an age that
// Counts of another counter yields.
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

// forget drops the counts of parts that ended a period ago.
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

// Counts yields the ages of invalid responses, to within half a part, and their numbers, the oldest first.
func (c *InvalidCounter) Counts(now time.Duration) iter.Seq2[time.Duration, int] {
	return func(yield func(time.Duration, int) bool) {
		for part, n := range c.parts(now) {
			if !yield(now-min(time.Duration(part)*c.part+c.part/2, now), n) {
				return
			}
		}
	}
}

// ComesBack returns the time until the oldest invalid responses are no longer counted, 0 if there are none.
func (c *InvalidCounter) ComesBack(now time.Duration) time.Duration {
	for part := range c.parts(now) {
		return time.Duration(part+int64(len(c.counts)))*c.part - now
	}
	return 0
}

// parts yields the number of each part that has invalid responses, and how many it has, the oldest part first.
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

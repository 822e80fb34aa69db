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

	// invalidParts is into how many parts the period is divided. An invalid response is forgotten a part later than it might be.
	invalidParts = 60
)

// InvalidCounter counts invalid responses, so that their number can be kept below the one for which Discord bans an address.
// [Response.Invalid] reports which responses are invalid. The server's period may begin at any time, so each counts for one period.
//
// An InvalidCounter is not safe for concurrent use. Time must not run backwards.
type InvalidCounter struct {
	part   time.Duration
	counts [invalidParts + 1]int32 // of the latest parts, a ring
	total  int                     // of them
	newest int64                   // which part was the latest, counted from time 0
}

// NewInvalidCounter returns a counter of the invalid responses in any period, which must be positive.
func NewInvalidCounter(period time.Duration) *InvalidCounter {
	return &InvalidCounter{part: max(min(period, longest)/invalidParts, 1)}
}

// Add takes in n invalid responses of the given time: one that has come now, or those of Counts of another counter.
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

// forget drops the counts of parts that lie a period back.
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

// Counts yields how many invalid responses there have been, and how long ago, give or take half a part, the oldest ones first.
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

// parts yields the parts with invalid responses, and how many these are, the oldest ones first.
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

package ratelimits

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff computes growing delays: unit, unit × base, unit × base², …, up to a maximum. To each delay it adds a random
// duration between -jitter and jitter, so that many clients do not retry at the same time. Backoff corresponds to the
// exponential backoff of hikari (a Discord library for Python). A Backoff is not safe for concurrent use.
type Backoff struct {
	unit    time.Duration
	base    float64
	maximum time.Duration
	jitter  time.Duration
	random  func() float64
	step    int
}

// NewBackoff returns a backoff whose delays begin with unit (which must be positive) and grow by the factor base
// (finite, at least 1) up to maximum (at least unit). To each delay, a random duration between -jitter and jitter is
// added; jitter must not be negative.
func NewBackoff(unit time.Duration, base float64, maximum, jitter time.Duration) (*Backoff, error) {
	switch {
	case unit <= 0:
		return nil, fmt.Errorf("backoff: unit is %v, want a positive duration", unit)
	case math.IsNaN(base) || math.IsInf(base, 0) || base < 1:
		return nil, fmt.Errorf("backoff: base is %v, want a finite number of at least 1", base)
	case maximum < unit:
		return nil, fmt.Errorf("backoff: maximum is %v, want at least the unit of %v", maximum, unit)
	case jitter < 0:
		return nil, fmt.Errorf("backoff: jitter is %v, want zero or more", jitter)
	}
	return &Backoff{unit: unit, base: base, maximum: maximum, jitter: jitter, random: rand.Float64}, nil
}

// Next returns the next delay. The delay is never negative, and it exceeds the maximum by at most jitter.
func (b *Backoff) Next() time.Duration {
	delay := min(float64(b.unit)*math.Pow(b.base, float64(b.step)), float64(b.maximum))
	b.step++
	shift := (2*b.random() - 1) * float64(b.jitter)
	return time.Duration(min(max(delay+shift, 0), float64(longest)))
}

// Reset starts again from the first delay.
func (b *Backoff) Reset() { b.step = 0 }

// All returns an endless sequence of the next delays.
func (b *Backoff) All() iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for yield(b.Next()) {
		}
	}
}

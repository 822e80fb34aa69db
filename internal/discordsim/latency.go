package discordsim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Latency is how long requests and answers travel. The zero value means no time at all.
type Latency struct {
	// RoundTrip is the mean; the request and the answer each take half of it.
	RoundTrip time.Duration
	// Jitter is the largest difference from the mean. The time of each direction is drawn separately and evenly. Times
	// below zero become zero.
	Jitter time.Duration
	// Draw replaces RoundTrip and Jitter: it returns the times of the request and of the answer. It is called under a
	// lock.
	Draw func(*rand.Rand) (in, out time.Duration)
}

// RoundTrip returns a fixed latency, half of it in each direction.
func RoundTrip(d time.Duration) Latency { return Latency{RoundTrip: d} }

// Smallest returns the smallest round trip that can occur without Draw, for [Conditions].
func (l Latency) Smallest() time.Duration { return max(l.RoundTrip-l.Jitter, 0) }

func (l Latency) draw(rng *rand.Rand) (in, out time.Duration) {
	if l.Draw != nil {
		in, out = l.Draw(rng)
		return max(in, 0), max(out, 0)
	}
	return l.oneWay(rng), l.oneWay(rng)
}

func (l Latency) oneWay(rng *rand.Rand) time.Duration {
	if l.Jitter == 0 {
		return l.RoundTrip / 2
	}
	spread := rng.Float64() - 0.5
	return max(l.RoundTrip/2+time.Duration(spread*float64(l.Jitter)), 0)
}

func (l Latency) validate() error {
	if l.RoundTrip < 0 || l.Jitter < 0 {
		return fmt.Errorf("%w: negative latency", ErrConfig)
	}
	return nil
}

package discordsim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Latency says how long requests and answers travel. The zero value means that they take no time.
type Latency struct {
	// RoundTrip is the mean time of a round trip. The request and the answer each take half of it.
	RoundTrip time.Duration
	// Jitter is the largest difference between a round trip and the mean. The times of both directions are drawn
	// separately, with an even distribution. Negative times become zero.
	Jitter time.Duration
	// Draw, if set, replaces RoundTrip and Jitter. It returns the travel times of the request and of the answer. It is
	// called with a lock held.
	Draw func(*rand.Rand) (in, out time.Duration)
}

// RoundTrip returns a latency without jitter: each direction takes half of d.
func RoundTrip(d time.Duration) Latency { return Latency{RoundTrip: d} }

// Smallest returns the shortest round trip that is possible with RoundTrip and Jitter. It ignores Draw. [Conditions]
// needs it.
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

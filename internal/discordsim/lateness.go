package discordsim

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Lateness is how much later than announced a place becomes free, or a window closes. Some of Discord's buckets are
// late. For example, a bucket of one request had announced a Reset-After of 5. It refused a request that was sent 5.001
// s later, and asked for a wait of another 0.3 s. Only the Retry-After of a refusal shows lateness.
type Lateness struct {
	By time.Duration // the constant part
	// Random is the upper bound of the random part. For each window of a fixed quota, and for each taken place of other
	// quotas, a new random part is drawn.
	Random time.Duration
}

// Late returns the quota with a lateness of at least by, and of at most by + random.
func (q Quota) Late(by, random time.Duration) Quota {
	q.Lateness = Lateness{By: by, Random: random}
	return q
}

// punctual returns the quota without lateness, as headers announce it.
func (q Quota) punctual() Quota { return q.Late(0, 0) }

// longest returns the longest time that a request can occupy a place of a window or of a log.
func (q Quota) longest() time.Duration { return q.Period + q.Lateness.By + q.Lateness.Random }

func (q Quota) validateLateness() error {
	switch l := q.Lateness; {
	case l.By < 0 || l.Random < 0:
		return fmt.Errorf("%w: negative lateness", ErrConfig)
	case q.Aligned && l.By+l.Random >= q.Period:
		return fmt.Errorf("%w: aligned windows cannot be late by a whole period", ErrConfig)
	case !q.limited() && l != Lateness{}:
		return fmt.Errorf("%w: lateness without a limit", ErrConfig)
	}
	return nil
}

// LateFor makes the buckets of the given major parameters (channels, guilds, webhooks) late. The rule's other buckets
// are punctual.
func LateFor(lateness Lateness, majors ...string) func(Call) Variant {
	late := make(map[string]bool)
	for _, major := range majors {
		late[major] = true
	}
	return func(call Call) Variant {
		if late[call.Major] {
			return Variant{Lateness: lateness}
		}
		return Variant{}
	}
}

// draws yields the random parts of one bucket's lateness, in the order of the bucket's openings. They depend only on
// the seed and on the major parameter, so an ideal client can compute them.
type draws struct{ seed, n uint64 }

func newDraws(seed uint64, major string) draws {
	h := fnv.New64a()
	h.Write([]byte(major))
	return draws{seed: mix(seed) ^ h.Sum64()}
}

// next returns the lateness of the next opening.
func (d *draws) next(l Lateness) time.Duration {
	d.n++
	if l.Random == 0 {
		return l.By
	}
	return l.By + time.Duration(float64(l.Random)*(float64(mix(d.seed+mix(d.n))>>11)/(1<<53)))
}

// mix is the SplitMix64 generator's last step. It turns similar numbers into very different ones.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

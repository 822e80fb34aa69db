package fleet_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// interval is the time of a trouble (a simulated fault) of processes or of the engine.
type interval struct{ from, until time.Duration }

// recovery returns how long after a trouble a bucket may be served at less than its rate. The death of a process is
// noticed after 3 s, and then the bucket is held for at most one period. The rest of the time is for messages and
// timers.
func (s *stage) recovery() time.Duration { return 4*time.Second + s.quota.Period }

// sessionTime is how long a process counts as alive after its latest call, and how long a loan lasts.
const sessionTime = 3 * time.Second

// longestUnknown is how long a bucket is held if only a dead process knows the bucket's period.
const longestUnknown = 10 * time.Second

// cycle returns the longest time from the first request of a window to that of the next window.
func (s *stage) cycle() time.Duration { return s.quota.Period + 2*s.latency + s.news() }

// news returns the longest time until all processes know of a response that one of them has received.
func (s *scene) news() time.Duration {
	slack := 100 * time.Millisecond
	if s.deaf {
		slack = 1600 * time.Millisecond // after this time processes call the engine even without a message
	}
	return slack + 2*s.away
}

// judgesRate reports whether the rate of buckets can be judged. This is so if nothing but a bucket's limit delays the
// requests when all troubles are over.
func (s *stage) judgesRate(w *world) bool {
	plain := w.discord == nil && s.quota.Kind == discordsim.KindFixed && s.leaving == 0 && s.faulty == 0 && !s.ordered
	return plain && !w.apart && s.declares == nil && s.global == 0 && s.lossy == 0 && s.policy <= shared.OutageFail
}

// tail returns how long a play continues after the last trouble, so that the rate can be judged.
func (s *stage) tail(w *world) time.Duration {
	if !s.judgesRate(w) {
		return 0
	}
	return s.recovery() + 3*s.cycle()
}

// slow returns an error if some bucket was served at less than 80 % of its rate while requests waited, at a time
// without troubles.
func (s *stage) slow(w *world) error {
	if !s.judgesRate(w) {
		return nil
	}
	slices.SortFunc(s.troubles, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	from := s.recovery()
	for _, next := range append(s.troubles, interval{from: s.length + s.tail(w)}) {
		for channel := range s.channels {
			path, most := fleet.Message(1+channel).Path, s.cycle()*5/4
			if at, found := s.TooSlow(path, s.quota.Limit, most, from, next.from); found {
				return fmt.Errorf("%v\nfrom %v on, fewer than %d requests were sent in %v, although others waited\n%s",
					s.scene, at, s.quota.Limit, most, s.story(path, at+2*most))
			}
		}
		from = max(from, next.until+s.recovery())
	}
	return nil
}

func TestRateIsTooSlowOnlyWhileRequestsWait(t *testing.T) {
	t.Parallel()
	quota := discordsim.Fixed(5, time.Second)
	config := bucket(discordsim.Rule{Quota: quota, Hash: "messages"})
	inBubble(t, fleet.Config{Processes: 1, Discord: config, Buckets: unlimited}, func(t *testing.T, f *fleet.Fleet) {
		path := fleet.Message(1).Path
		callers(t, f, f.Processes[0], 10, 4, fleet.Message(1))
		finish(t, f, time.Minute)
		over := f.Now()
		time.Sleep(10 * time.Second) // no request waits
		_, slow := f.TooSlow(path, quota.Limit, quota.Period*5/4, 0, f.Now())
		assert.False(t, slow, "%s", f.Story(path, 0, over))
		at, slow := f.TooSlow(path, quota.Limit+1, quota.Period, 2*time.Second, over)
		assert.True(t, slow, "the bucket's rate is not as high as this")
		assert.InDelta(t, 2.5, at.Seconds(), 0.6)
		_, slow = f.TooSlow(path, quota.Limit+1, quota.Period, over, f.Now())
		assert.False(t, slow)
	})
}

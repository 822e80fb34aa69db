package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// A period that something has shown once, and nothing since, does not slow the bucket down for ever.
func TestPeriodThatIsNotSeenAgainIsForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  int
		before time.Duration // the period in the first five seconds
		faults []discordsim.Fault
	}{
		"it has become shorter": {limit: 5, before: 60 * second},
		"a 429 of the resource says how long that is used up": {5, second, []discordsim.Fault{{
			Nth: []int{8}, Edit: func(_ discordsim.Call, r *discordsim.Response) {
				r.Status = 429 // as in Discord's documentation: Remaining 9 of 10, Reset-After 64.57, scope shared
				r.Header.Set("X-RateLimit-Scope", "shared")
				r.Header.Set("X-RateLimit-Reset-After", "64.570")
				r.Header.Set("Retry-After", "65")
				r.Body = []byte(`{"message": "The resource is being rate limited.", "retry_after": 64.57, "global": false}`)
			},
		}}},
		"one answer to a small bucket names a wrong reset": {2, second, []discordsim.Fault{{
			Nth: []int{7}, Set: map[string]string{"X-RateLimit-Reset-After": "60.000"},
		}}},
	} {
		for kind, quota := range map[string]func(int, time.Duration) discordsim.Quota{
			"fixed": discordsim.Fixed, "sliding log": discordsim.Sliding,
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				rule := always(quota(c.limit, c.before))
				rule.Changes = []discordsim.Change{{At: 5 * second, Quota: quota(c.limit, second)}}
				rule.Faults = c.faults
				s := serve(t, rule, steady(20*ms))
				s.sendUntil(10 * 60 * second)
				before := len(s.accepted)
				s.sendUntil(15 * 60 * second)
				assert.Greater(t, len(s.accepted)-before, 200*c.limit, "in 300 s at %d a second, ten minutes later, period %v", c.limit, s.Period())
			})
		}
	}
}

// After one 429 that somebody else has caused, a fixed window is taken for a log that names its next place, and never
// seen to be none.
func TestFixedWindowAfterAStrangersRefusalOpensWhenItCloses(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(5, 10*second)), steady(20*ms))
	s.send(3)
	s.finish()
	s.world.Consume(s.start.Add(s.now), message, 5)
	s.send(1) // refused
	s.finish()
	require.Len(t, s.refusals, 1)
	s.until(60 * second)
	waits := time.Duration(0)
	for range 5 {
		begin := s.now
		s.send(1) // opens the window
		s.until(begin + 9*second)
		s.send(4) // late in it
		s.until(begin + 10*second + 50*ms)
		asked := s.now
		s.send(4) // in the next one
		waits = max(waits, s.now-asked)
		s.until(s.now + 15*second)
	}
	assert.Less(t, waits, second)
}

// A log of many places in smooth use: those that are taken together come back together, as late as the latest of them.
func TestLogOfManyPlacesDoesNotMakeASmoothUserWait(t *testing.T) {
	t.Parallel()
	const limit, period = 1000, 10 * second
	s := serve(t, always(discordsim.Sliding(limit, period)), steady(20*ms))
	s.send(1)
	s.finish()
	longest := time.Duration(0)
	for range 5 * limit {
		asked := s.now
		s.send(1)
		longest = max(longest, s.now-asked)
		s.until(asked + period/limit*21/20) // 5% slower than what is allowed
	}
	assert.Less(t, longest, period/10, "a request that could have left at once")
}

// A log that names its next place, and is never seen empty, names its period once and less from then on. What it has
// named is forgotten, and again what was named later; the refusal that this leads to brings the first one back, and is
// the only one.
func TestPeriodThatWasForgottenInTwoStepsComesBackAtARefusal(t *testing.T) {
	t.Parallel()
	const way = 50*ms + time.Microsecond
	longer := map[int]trip{
		1: {way, 51987 * time.Microsecond}, 2: {50016 * time.Microsecond, way}, 6: {way + 50*ms, 67 * ms},
		11: {way, way + 730*time.Microsecond}, 12: {way + 268*time.Microsecond, way},
	}
	n := 0
	s := serve(t, always(discordsim.SlidingNext(2, 250*ms)), func() trip {
		n++
		if trip, ok := longer[n]; ok {
			return trip
		}
		return trip{way, way}
	})
	s.send(40)
	s.finish()
	assert.LessOrEqual(t, s.world.Report().Avoidable.Total(), 1)
}

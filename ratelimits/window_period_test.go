package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// The kind of a log that names its next place must stay known. This kind is not refuted if another client fills the
// log. It is not refuted by a lost request either: perhaps the lost request never reached the server, so that its place
// is not the log's next place.
func TestLogThatNamesItsNextPlaceIsStillKnown(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(s *served){
		"after a stranger's refusal": func(s *served) {
			s.World.Consume(s.Start.Add(s.Now), message, 5)
			before := len(s.Refusals)
			s.SendOneByOne(1)
			require.Len(s.T, s.Refusals, before+1)
		},
		"after a lost request": func(s *served) {
			p, granted := s.Take(s.Now)
			require.True(s.T, granted)
			s.Lost(s.Now, p)
			s.Until(s.Now + 500*ms)
			s.SendOneByOne(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, always(discordsim.SlidingNext(5, second)), steady(40*ms))
			s.SendEvery(150*ms, 40)
			s.Finish()
			s.Until(s.Now + 5*second)
			require.Equal(t, ratelimits.KindNext, s.Kind())
			happens(s)
			assert.Equal(t, ratelimits.KindNext, s.Kind())
		})
	}
}

// A long period that responses have named once, and never again, must not slow the bucket down for ever.
func TestPeriodThatIsNotSeenAgainIsForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  int
		before time.Duration // the period in the first five seconds
		faults []discordsim.Fault
	}{
		"the period has become shorter": {limit: 5, before: 60 * second},
		"a 429 of a shared limit names that limit's reset": {5, second, []discordsim.Fault{{
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
				s.SendUntil(10 * 60 * second)
				before := len(s.Accepted)
				s.SendUntil(15 * 60 * second)
				assert.Greater(t, len(s.Accepted)-before, 200*c.limit, "in 300 s, ten minutes later, period %v", s.Period())
			})
		}
	}
}

// After one 429 that another client has caused, the limiter's Window takes the bucket for a sliding log that names its
// next place, although the bucket is a fixed window. No later response corrects this mistake. Even so, requests must be
// sent soon after each fixed window has closed.
func TestFixedWindowAfterAStrangersRefusalOpensWhenItCloses(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(5, 10*second)), steady(20*ms))
	s.Send(3)
	s.Finish()
	s.World.Consume(s.Start.Add(s.Now), message, 5)
	s.Send(1) // refused
	s.Finish()
	require.Len(t, s.Refusals, 1)
	s.Until(60 * second)
	waits := time.Duration(0)
	for range 5 {
		begin := s.Now
		s.Send(1) // opens the window
		s.Until(begin + 9*second)
		s.Send(4) // shortly before the window closes
		s.Until(begin + 10*second + 50*ms)
		asked := s.Now
		s.Send(4) // in the next window
		waits = max(waits, s.Now-asked)
		s.Until(s.Now + 15*second)
	}
	assert.Less(t, waits, second)
}

// The ledger of a log with many places joins charges. Joined charges all expire as late as the last of them. A client
// that sends at an even pace below the limit must not have to wait because of such a join.
func TestLogOfManyPlacesDoesNotMakeASmoothUserWait(t *testing.T) {
	t.Parallel()
	const limit, period = 1000, 10 * second
	s := serve(t, always(discordsim.Sliding(limit, period)), steady(20*ms))
	s.Send(1)
	s.Finish()
	longest := time.Duration(0)
	for range 5 * limit {
		asked := s.Now
		s.Send(1)
		longest = max(longest, s.Now-asked)
		s.Until(asked + period/limit*21/20) // 5 % slower than the limit allows
	}
	assert.Less(t, longest, period/10, "wait of a request that the limit allows at once")
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// The period that a bucket once seemed to have is never forgotten by one with few places.
func TestPeriodThatHasBecomeShorterIsBelieved(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]func(int, time.Duration) discordsim.Quota{
		"fixed": discordsim.Fixed, "sliding log": discordsim.Sliding,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota(5, 60*second))
			rule.Changes = []discordsim.Change{{At: 5 * second, Quota: quota(5, second)}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 1000, "in 300 s at five a second, ten minutes after the change, period %v", s.Period())
		})
	}
}

// A 429 of the resource says how long the resource is used up, and that becomes the period of the bucket for ever.
func TestResetOfASharedRefusalIsNotThePeriodOfTheBucket(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(5, second), "sliding log": discordsim.Sliding(5, second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota)
			rule.Faults = []discordsim.Fault{{Nth: []int{8}, Edit: func(_ discordsim.Call, r *discordsim.Response) {
				r.Status = 429 // as in Discord's documentation: Remaining 9 of 10, Reset-After 64.57, scope shared
				r.Header.Set("X-RateLimit-Scope", "shared")
				r.Header.Set("X-RateLimit-Reset-After", "64.570")
				r.Header.Set("Retry-After", "65")
				r.Body = []byte(`{"message": "The resource is being rate limited.", "retry_after": 64.57, "global": false}`)
			}}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 1000, "in 300 s at five a second, ten minutes after one 429, period %v", s.Period())
		})
	}
}

// One answer that names a wrong reset makes a bucket of two places thirty times as slow for ever.
func TestOneWrongResetIsForgottenByASmallBucket(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(2, second), "sliding log": discordsim.Sliding(2, second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota)
			rule.Faults = []discordsim.Fault{{Nth: []int{7}, Set: map[string]string{"X-RateLimit-Reset-After": "60.000"}}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 400, "in 300 s at two a second, ten minutes after the lie, period %v", s.Period())
		})
	}
}

// After one 429 that somebody else has caused, a fixed window is taken for a log that names its next place, and never seen to be none.
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

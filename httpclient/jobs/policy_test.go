package jobs_test

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/jobs"
	"github.com/ratelight/ratelight/ratelimits"
)

// refused returns the error of a request that would have to wait for a bucket with 5 requests in 10 s.
func refused(key string, wait time.Duration) error {
	return &ratelimits.TooLongError{Key: key, Wait: wait, Limit: 5, Period: 10 * time.Second}
}

func TestTheContextOfAJobBoundsItsWait(t *testing.T) {
	t.Parallel()
	options := buckets.OptionsOf(exact(t).Context(t.Context()))
	assert.True(t, options.HasMaxWait)
	assert.Equal(t, jobs.DefaultMaxWait, options.MaxWait)
}

// The first five snoozed jobs must come back in the next window, the next five jobs one window later, and so on. The
// program guild-queues-rate-limiting uses the same formula.
func TestSnoozedJobsComeBackAtThePaceOfTheirLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy := exact(t)
		for i := range 1000 {
			window := 30*time.Second + time.Duration(i/5)*10*time.Second
			after := policy.Decide(refused("a", 30*time.Second)).After
			assert.GreaterOrEqual(t, after, window)
			assert.Less(t, after, window+10*time.Second)
		}
	})
}

func TestJobsThatWaitForDifferentLimitsAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy := exact(t)
		for range 100 {
			policy.Decide(refused("a", time.Minute))
		}
		assert.Equal(t, time.Minute, policy.Decide(refused("b", time.Minute)).After)
	})
}

func TestASnoozeThatIsOverIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy := exact(t)
		for range 10 {
			policy.Decide(refused("a", time.Minute))
		}
		time.Sleep(time.Minute + 20*time.Second)
		assert.Equal(t, 10*time.Second, policy.Decide(refused("a", 10*time.Second)).After)
	})
}

func TestJobsOfAnUnknownLimitComeBackNoFasterThanTheGlobalLimit(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no limit known": &ratelimits.TooLongError{Key: "a", Wait: time.Minute},
		"the global limit": &ratelimits.TooLongError{Key: "a", Wait: time.Minute,
			Global: true, Limit: 1000, Period: time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			policy := exact(t)
			for range 50 {
				policy.Decide(err)
			}
			assert.Equal(t, time.Minute+time.Second, policy.Decide(err).After)
		})
	}
}

func TestSpreadIsAddedByChance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy, err := jobs.New(jobs.WithSpread(10 * time.Second))
		require.NoError(t, err)
		different := make(map[time.Duration]bool)
		for i := range 100 {
			after := policy.Decide(refused(strconv.Itoa(i), time.Minute)).After
			assert.GreaterOrEqual(t, after, time.Minute)
			assert.Less(t, after, time.Minute+10*time.Second)
			different[after] = true
		}
		assert.Greater(t, len(different), 90)
	})
}

// If a limit lasts for ever, the next attempt must not come soon.
func TestAnEndlessWaitIsNoShortOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		policy, err := jobs.New()
		require.NoError(t, err)
		for range 10 {
			assert.Greater(t, policy.Decide(refused("a", math.MaxInt64)).After, time.Hour)
		}
	})
}

// A policy exists as long as its process and meets the limits of many channels. It must forget the limits whose waits
// are over, and no others.
func TestAPolicyStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := exact(t)
		policy.Decide(refused("long", time.Hour))
		decide := func(i int) { policy.Decide(refused(strconv.Itoa(i%100_000), time.Second)) }
		for i := range 100_000 {
			decide(i)
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, policy.Remembered(), 5000)
		assert.Equal(t, time.Hour-100*time.Second+2*time.Second, policy.Decide(refused("long", 0)).After)
	})
}

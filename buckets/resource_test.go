package buckets_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// A shared 429 holds a resource for all credentials, also for those that have not used it yet. The manager must keep
// that hold once, without a bucket for each credential.
func TestUsedUpResourceMakesNoBuckets(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		const credentials = 1000
		name := func(i int) string { return fmt.Sprint("Bot ", i) }
		for i := range credentials { // each credential learns the hash from another channel
			as(m, name(i), message(2)).update(limited("messages", 5, 4, time.Second))
		}
		before := m.Stats().Buckets
		as(m, name(0), message(1)).update(inBucket(refused(ratelimits.ClassShared, 20*time.Second),
			"messages", 5, 4, time.Second))
		assert.Equal(t, 1, m.Stats().Buckets-before, "one bucket is created")

		wait(5 * time.Second)
		late, elsewhere := as(m, name(7), message(1)), as(m, name(7), message(3))
		assert.False(t, late.granted(), "the resource is held")
		assert.True(t, elsewhere.granted(), "another resource is not held")
		wait(15*time.Second - time.Millisecond)
		require.False(t, late.granted())
		wait(2 * time.Millisecond)
		assert.True(t, late.granted(), "the hold is over")

		wait(time.Minute)
		assert.True(t, as(m, name(8), message(1)).granted(), "the hold is forgotten")
	})
}

// The hold of a resource ends by LiftHolds or by a restart. It must not hold buckets that are created later.
func TestLiftedOrRestartedManagerHoldsNoResource(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lifted", "restarted"} {
		subtest(t, how, func(t *testing.T) {
			m := started(t)
			as(m, "Bot two", message(2)).update(limited("messages", 5, 4, time.Second))
			as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
				"messages", 5, 4, time.Second))
			if how == "lifted" {
				m.LiftHolds()
			} else {
				require.NoError(t, m.Close())
				require.NoError(t, m.Start())
				as(m, "Bot two", message(2)).update(limited("messages", 5, 4, time.Second))
			}
			assert.True(t, as(m, "Bot two", message(1)).granted())
		})
	}
}

// A resource is held. A credential's route that learns a new hash after the 429 must still be held there.
func TestHoldOfAResourceFollowsARouteThatMoves(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{"Bot one", "Bot two"} {
			for _, channel := range []int{2, 3} {
				as(m, credential, message(channel)).update(limited("old", 5, 4, time.Second))
			}
		}
		as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
			"old", 5, 4, time.Second))
		wait(5 * time.Second)
		for _, channel := range []int{2, 3} {
			as(m, "Bot two", message(channel)).update(limited("new", 5, 4, time.Second))
		}
		assert.False(t, as(m, "Bot two", message(1)).granted(),
			"the channel is held, although its bucket has another hash")
	})
}

// The hold of a resource moves with a route to a bucket where requests of another route wait. Those requests must be
// rejected if their wait is too long now.
func TestWaitersAreJudgedAgainWhenAHoldComesWithARoute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute))
		as(m, "Bot one", message(1)).update(limited("old", 5, 4, time.Second))
		for _, channel := range []int{2, 3} {
			as(m, "Bot two", message(channel)).update(limited("old", 5, 4, time.Second))
		}
		as(m, "Bot two", list(1)).update(limited("new", 5, 0, 30*time.Second))
		waiting := as(m, "Bot two", list(1))
		as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
			"old", 5, 4, time.Second))
		wait(5 * time.Second)
		for _, channel := range []int{2, 3} {
			require.False(t, waiting.done())
			as(m, "Bot two", message(channel)).update(limited("new", 5, 4, time.Second))
		}
		assert.Equal(t, ratelimits.ClassShared, tooLong(t, waiting).Class)
	})
}

// A shared 429 in one process must hold the resource in other processes, too, for all credentials.
func TestHoldOfAResourceReachesOtherProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		for _, m := range []*buckets.RESTBucketManager{a, b} {
			as(m, "Bot two", message(2)).update(limited("messages", 5, 4, time.Second))
		}
		as(a, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
			"messages", 5, 4, time.Second))
		assert.False(t, as(b, "Bot two", message(1)).granted(), "the channel is held for all credentials")
	})
}

// A shared 429 without Retry-After must hold the resource for the same time for all credentials.
func TestResourceIsHeldAsLongForOtherCredentials(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{"Bot one", "Bot two"} {
			as(m, credential, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		wait(2 * time.Second)
		unsaid := inBucket(ratelimits.Response{Status: 429, Class: ratelimits.ClassShared},
			"messages", 5, 4, time.Minute)
		as(m, "Bot one", message(1)).update(unsaid)
		wait(5 * time.Second)
		one, two := as(m, "Bot one", message(1)), as(m, "Bot two", message(1))
		assert.Equal(t, one.granted(), two.granted())
	})
}

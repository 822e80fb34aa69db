package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A response given to UpdateRateLimits must count like the response to a request with a lease.
func TestKnowledgeFromElsewhereMakesABucketKnown(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		wait(27 * time.Second)
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 2, 10*time.Second))
		wait(3 * time.Second)
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit)
		assert.Equal(t, 2, b.Remaining)
		assert.Equal(t, 7*time.Second, b.ResetAfter.Truncate(10*time.Millisecond), "counted from the call")
		all := asks(m, message(1), 3)
		assert.Equal(t, 2, granted(t, all), "the bucket is known, so no request has to go first")
		assert.Equal(t, 2, m.Stats().InFlight, "only requests with a lease are in flight")
		updateAll(all[:2], limited("messages", 5, 0, 10*time.Second))
		wait(11 * time.Second)
		all[2].update(roomy)
		drained(t, m)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Authentications, "everything is forgotten")
	})
}

func TestKnowledgeFromElsewhereIsTheSameBucketAfterwards(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		before := m.Stats().Buckets
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 1, 10*time.Second))
		assert.Equal(t, before, m.Stats().Buckets)
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit)
		assert.LessOrEqual(t, b.Remaining, 1, "another client has used the bucket")
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 4, 10*time.Second))
		assert.LessOrEqual(t, snapshot(t, m, "messages").Remaining, 1,
			"a larger remaining count proves nothing within a window")
	})
}

func TestKnowledgeFromElsewhereLetsWaitersFollow(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 4)
		m.UpdateRateLimits(message(1), bot, limited("messages", 4, 3, time.Minute))
		wait(0)
		assert.Equal(t, 2, granted(t, waiting),
			"the bucket is known before the probe's response, and the probe is charged in it")
		probe.update(limited("messages", 4, 2, time.Minute))
		assert.Equal(t, 2, granted(t, waiting))
	})
}

func TestKnowledgeFromElsewhereMovesARouteToItsNewHash(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("first", 1, 0, time.Hour))
		m.UpdateRateLimits(message(1), bot, limited("second", 7, 6, time.Minute))
		assert.Equal(t, 7, snapshot(t, m, "second").Limit)
		assert.True(t, ask(m, message(1)).granted(), "the route's requests count in the second bucket now")
	})
}

func TestRefusalsFromElsewhereAreObeyed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class ratelimits.Class
		held  []bool // the route itself, another route, another credential, an exempt route
	}{
		{ratelimits.ClassUser, []bool{true, false, false, false}},
		{ratelimits.ClassShared, []bool{true, false, false, false}},
		{ratelimits.ClassGlobal, []bool{true, true, false, false}},
		{ratelimits.ClassEdge, []bool{true, true, true, true}},
	} {
		subtest(t, c.class.String(), func(t *testing.T) {
			m := started(t)
			m.UpdateRateLimits(message(1), bot, refused(c.class, 5*time.Second))
			all := []*caller{ask(m, message(1)), ask(m, list(1)), as(m, "Bot two", message(1)), as(m, "", callback(1))}
			for i, caller := range all {
				assert.Equal(t, c.held[i], !caller.granted(), "%s", caller.request.Route)
			}
		})
	}
}

func TestKnowledgeFromElsewhereOfNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		fresh := buckets.NewRESTBucketManager()
		fresh.UpdateRateLimits(message(1), bot, roomy)
		assert.Zero(t, fresh.Stats().Buckets, "before Start the response is ignored")

		m := started(t)
		m.UpdateRateLimits(routes.CompiledRoute{}, bot, roomy)
		assert.Zero(t, m.Stats().Buckets, "a response without a route is ignored")
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m.UpdateRateLimits(message(1), bot, plain(500))
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit, "missing headers change nothing")
		assert.False(t, b.Unlimited)
		require.NoError(t, m.Close())
		m.UpdateRateLimits(message(1), bot, roomy)
		assert.Zero(t, m.Stats().Buckets, "after Close the response is ignored")
		_, err := m.Acquire(background, message(1), bot)
		assert.ErrorIs(t, err, buckets.ErrClosed)
	})
}

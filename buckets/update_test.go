package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// What is known from elsewhere counts as if a request had been sent under a lease.
func TestKnowledgeFromElsewhereMakesABucketKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 2, 10*time.Second))
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit)
		assert.Equal(t, 2, b.Remaining)
		all := asks(m, message(1), 3)
		assert.Equal(t, 2, granted(t, all), "there is nothing to discover any more")
		assert.Equal(t, 2, m.Stats().InFlight, "only what was really sent")
		updateAll(all[:2], limited("messages", 5, 0, 10*time.Second))
		wait(11 * time.Second)
		all[2].update(roomy)
		drained(t, m)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Authentications, "nothing is left of it")
	})
}

// The numbers arrive as they are, and the reset is where reset-after says, counted from now.
func TestKnowledgeFromElsewhereArrivesUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		wait(27 * time.Second)
		m.UpdateRateLimits(message(1), bot, limited("messages", 18, 9, 3560*time.Millisecond))
		b := snapshot(t, m, "messages")
		assert.Equal(t, 18, b.Limit)
		assert.Equal(t, 9, b.Remaining)
		assert.Equal(t, 3560*time.Millisecond, b.ResetAfter.Truncate(10*time.Millisecond))
		wait(3 * time.Second)
		assert.Equal(t, 560*time.Millisecond, snapshot(t, m, "messages").ResetAfter.Truncate(10*time.Millisecond))
	})
}

func TestKnowledgeFromElsewhereIsTheSameBucketAfterwards(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		before := m.Stats().Buckets
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 1, 10*time.Second))
		assert.Equal(t, before, m.Stats().Buckets)
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit)
		assert.LessOrEqual(t, b.Remaining, 1, "somebody else uses it; our own request may have come after that answer")
		m.UpdateRateLimits(message(1), bot, limited("messages", 5, 4, 10*time.Second))
		assert.LessOrEqual(t, snapshot(t, m, "messages").Remaining, 1, "more than we know of proves nothing within a window")
	})
}

func TestKnowledgeFromElsewhereLetsWaitersFollow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 4)
		m.UpdateRateLimits(message(1), bot, limited("messages", 4, 3, time.Minute))
		wait(0)
		assert.Equal(t, 2, granted(t, waiting), "the bucket is known before the probe comes back, which stays charged in it")
		probe.update(limited("messages", 4, 2, time.Minute))
		assert.Equal(t, 2, granted(t, waiting))
	})
}

func TestKnowledgeFromElsewhereMovesARouteToItsNewHash(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("first", 1, 0, time.Hour))
		m.UpdateRateLimits(message(1), bot, limited("second", 7, 6, time.Minute))
		assert.Equal(t, 7, snapshot(t, m, "second").Limit)
		c := ask(m, message(1))
		assert.True(t, c.granted(), "the route's requests count in the other bucket now")
	})
}

func TestRefusalsFromElsewhereAreObeyed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class ratelimits.Class
		held  []bool // the route itself, another one, another authentication, an exempt one
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
		assert.Zero(t, fresh.Stats().Buckets, "not before Start")

		m := started(t)
		m.UpdateRateLimits(routes.CompiledRoute{}, bot, roomy)
		assert.Zero(t, m.Stats().Buckets, "not of no route")
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m.UpdateRateLimits(message(1), bot, plain(500))
		b := snapshot(t, m, "messages")
		assert.Equal(t, 5, b.Limit, "missing headers change nothing that is known")
		assert.False(t, b.Unlimited)
		require.NoError(t, m.Close())
		m.UpdateRateLimits(message(1), bot, roomy)
		assert.Zero(t, m.Stats().Buckets, "not after Close")
		_, err := m.Acquire(context.Background(), message(1), bot)
		assert.ErrorIs(t, err, buckets.ErrClosed)
	})
}

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

// A request that has waited for a declared limit waits for the edge, too, which is held.
func TestARequestWithAReservationWaitsForTheEdge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, 10*time.Second))
		discover(t, m, list(1), roomy)
		discover(t, m, message(1), limited("messages", 100, 99, time.Hour))
		c := ask(m, message(1))
		require.False(t, c.done())
		discover(t, m, list(1), refused(ratelimits.ClassEdge, time.Minute))
		wait(30 * time.Second)
		assert.False(t, c.granted(), "the edge is held for a minute")
		wait(time.Minute)
		require.True(t, c.granted())
	})
}

// A hook that panics at the end of the last request does not keep Shutdown waiting.
func TestShutdownEndsAfterAHookThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithHooks(buckets.Hooks{Held: func(context.Context, buckets.Held) { panic("hook") }}))
		c := ask(m, message(1))
		require.True(t, c.granted())
		done := false
		go func() {
			_ = m.Shutdown(background)
			done = true
		}()
		wait(time.Second)
		require.False(t, done)
		func() {
			defer func() { assert.Equal(t, "hook", recover()) }()
			c.lease.Update(refused(ratelimits.ClassGlobal, time.Second))
		}()
		wait(time.Minute)
		assert.True(t, done)
	})
}

// A reservation that is put off, as what it waits for is held for longer, holds up others no longer than until their
// bucket opens for them.
func TestAReservationThatIsPutOffHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const period = 70 * time.Second
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		hook := webhookPost("token")
		for _, credential := range []string{"Bot one", "Bot two", "Bot three"} {
			as(m, credential, list(1)).update(roomy)
		}
		discoverPunctual(t, m, hook, limited("posts", 2, 0, period))
		early, late := as(m, "Bot one", list(1)), as(m, "Bot one", list(1))
		require.True(t, early.granted() && late.granted())
		first := as(m, "Bot one", hook)
		wait(time.Millisecond)
		second, third := as(m, "Bot two", hook), as(m, "Bot three", hook)
		wait(period - 10*time.Second)
		early.update(refused(ratelimits.ClassGlobal, 60*time.Second)) // 50 s after the bucket opens
		wait(10*time.Second + roundings)
		require.False(t, first.done())
		require.True(t, second.granted())
		require.False(t, third.done(), "the place is the first one's, which leaves earlier than the bucket opens again")
		second.update(limited("posts", 2, 1, period))
		wait(10 * time.Second)
		late.update(refused(ratelimits.ClassGlobal, 10*time.Minute))
		require.False(t, first.done())
		wait(period)
		assert.True(t, third.granted(), "the bucket is open for two since 10 s, and the first one has 9 minutes to wait")
	})
}

// The same for a request that is subject to declared limits: others leave as soon as it is known that it leaves later.
func TestAReservationThatIsPutOffFreesDeclaredLimitsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForAll(), 4, 5*time.Minute),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 3*time.Minute))
		as(m, "Bot two", message(1)).update(limited("messages", 5, 4, time.Second))
		other := as(m, "Bot two", message(1))
		discoverPunctual(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		discover(t, m, list(1), limited("lists", 100, 99, time.Minute))
		for _, group := range []string{"a", "b"} {
			c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
			require.False(t, c.done())
			wait(time.Millisecond)
		}
		wait(11 * time.Second) // both go on to wait for the declared limit
		c := ask(m, list(1))
		require.False(t, c.done(), "the last place of five minutes is that of the first message in three")
		other.update(inBucket(refused(ratelimits.ClassShared, 10*time.Minute), "messages", 5, 4, time.Second))
		assert.True(t, c.granted(), "the message leaves in ten minutes at the earliest")
	})
}

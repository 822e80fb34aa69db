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
	t.Parallel()
	bubble(t, func(t *testing.T) {
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
		c.update(roomy)
		drained(t, m)
	})
}

// A hook that panics at the end of the last request does not keep Shutdown waiting.
func TestShutdownEndsAfterAHookThatPanics(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
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

package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// A group and a key are two things, whatever they are called.
func TestGroupsAndKeysAreNotMixedUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute, buckets.PerGroup(),
			buckets.PerKey(func(r *buckets.Request) string { return r.Route.Major().ID })))
		discover(t, m, message(100), roomy)
		for _, of := range []struct {
			group   string
			channel int
		}{{"1", 23}, {"12", 3}} {
			c := call(context.Background(), m, buckets.Request{Route: message(of.channel), Authorization: bot, Group: of.group})
			require.True(t, c.granted(), "%+v", of)
			c.update(roomy)
		}
	})
}

func TestNobodyOvertakesTheLineOfADeclaredLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 1, time.Second))
		for channel := range 2 {
			discover(t, m, message(channel+1), roomy)
			wait(2 * time.Second)
		}
		first, waits := ask(m, message(1)), ask(m, message(1))
		require.True(t, first.granted())
		require.False(t, waits.done())
		first.lease.Return()
		_, err := m.TryAcquire(message(2), bot) // at the same moment
		assert.Error(t, err)
		wait(0)
		require.True(t, waits.granted())
	})
}

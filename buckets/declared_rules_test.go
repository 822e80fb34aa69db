package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// A group and a key are two things, whatever they are called.
func TestGroupsAndKeysAreNotMixedUp(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute, buckets.PerGroup(),
			buckets.PerKey(func(r *buckets.Request) string { return r.Route.MajorID() })))
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

// What is kept for a request that needs more is kept for a period, however often that gets a part of it meanwhile.
func TestPermitIsKeptForAPeriodAtMost(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ban := compile(routes.BanUserFromGuild, "1", "2")
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage, routes.ListMessages), 1, 10*time.Second, buckets.Named("first")),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage, routes.BanUserFromGuild), 1, 20*time.Second, buckets.Named("second")),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Hour, buckets.Named("third")))
		discover(t, m, message(1), roomy)
		wait(30 * time.Second)
		discover(t, m, list(1), limited("list", 100, 90, time.Minute))
		wait(time.Second)
		discover(t, m, ban, limited("ban", 100, 90, time.Minute))
		wait(12 * time.Second)
		all := ask(m, message(1)) // keeps the first, gets the second after eight seconds, and the third within the hour
		wait(9 * time.Second)
		only := ask(m, list(1))
		require.False(t, only.done())
		wait(2 * time.Second)
		require.True(t, only.granted(), "it has been kept for ten seconds")
		only.update(limited("list", 100, 90, time.Minute))
		wait(time.Hour)
		require.True(t, all.granted())
		all.update(roomy)
		drained(t, m)
	})
}

func TestNobodyOvertakesTheLineOfADeclaredLimit(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
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
		waits.update(roomy)
		drained(t, m)
	})
}

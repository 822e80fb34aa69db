package buckets_test

import (
	"context"
	"slices"
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

// Each is kept for the period of its own limit, whatever others in the bucket keep for longer.
func TestEachPermitIsKeptForItsOwnPeriod(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		of := func(groups ...string) buckets.LimitOption {
			return buckets.PerKey(func(r *buckets.Request) string {
				if slices.Contains(groups, r.Group) {
					return "all"
				}
				return ""
			})
		}
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour),
			buckets.WithLimit(buckets.ForAll(), 1, time.Minute, of("patient"), buckets.Named("slow")),
			buckets.WithLimit(buckets.ForAll(), 1, 10*time.Second, of("hasty", "free"), buckets.Named("fast")),
			buckets.WithLimit(buckets.ForAll(), 1, time.Hour, of("first", "patient", "hasty"), buckets.Named("both")))
		in := func(group string, channel int) *caller {
			return call(context.Background(), m, buckets.Request{Route: message(channel), Authorization: bot, Group: group})
		}
		discover(t, m, message(1), roomy)
		discover(t, m, message(2), roomy)
		in("first", 1).update(roomy)
		patient, hasty := in("patient", 1), in("hasty", 1)
		free := in("free", 2)
		wait(9 * time.Second)
		require.False(t, patient.done() || hasty.done() || free.done())
		wait(2 * time.Second)
		assert.True(t, free.granted(), "what the one keeps that waits for an hour is kept for ten seconds")
		require.NoError(t, m.Close())
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

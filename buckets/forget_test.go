package buckets_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestInteractionsLeaveNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		most := 0
		for n := range 20_000 {
			for _, route := range []routes.CompiledRoute{callback(n), followUp(n)} {
				lease, err := m.Acquire(context.Background(), route, "")
				require.NoError(t, err)
				if route.Route().OneShot() {
					lease.Update(plain(204))
				} else {
					lease.Update(limited("follow-ups", 5, 4, 2*time.Second))
				}
			}
			if n%100 == 99 {
				time.Sleep(time.Second)
			}
			most = max(most, m.Stats().Buckets)
		}
		assert.Less(t, most, 2*100*45, "those of the last half minute")
		time.Sleep(15 * time.Minute)
		s := m.Stats()
		assert.Zero(t, s.Buckets)
		assert.Equal(t, 2, s.Routes)
		assert.GreaterOrEqual(t, s.Evicted, uint64(40_000))
	})
}

func TestRoutesAreForgottenWhenNobodyUsesThem(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		for n := range 50 {
			as(m, fmt.Sprintf("Bearer %d", n), list(1)).update(limited("messages", 5, 4, time.Second))
		}
		for range 10 {
			wait(6 * time.Minute)
			ask(m, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		assert.Equal(t, 51, m.Stats().Routes, "for an hour at least")
		for range 10 {
			wait(6 * time.Minute)
			ask(m, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		s := m.Stats()
		assert.Equal(t, 1, s.Routes, "the one that is used is kept")
		assert.Equal(t, 1, s.Authentications)
		waiting := asks(m, message(1), 2)
		assert.Equal(t, 2, granted(t, waiting), "its hash is still known")
	})
}

func TestAuthenticationIsKeptAsLongAsItIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		ask(m, message(1)).update(refused(ratelimits.ClassGlobal, 5*time.Hour))
		wait(5*time.Hour - time.Minute)
		held := ask(m, message(2))
		assert.False(t, held.granted(), "a hold of hours is not forgotten with the route")
		wait(2 * time.Minute)
		assert.True(t, held.granted())
		held.update(roomy)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Authentications)
	})
}

// What was counted of a server counts when the server is forgotten.
func TestNumbersOfAForgottenServerAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		c := call(context.Background(), m, buckets.Request{Route: message(1), Server: "example.com"})
		c.update(limited("messages", 5, 4, time.Second))
		require.Len(t, m.Status(5).Edges, 2)
		before := m.Stats()
		wait(3 * time.Hour)
		require.Len(t, m.Status(5).Edges, 1)
		after := m.Stats()
		assert.EqualValues(t, 1, after.Granted)
		assert.Equal(t, before.Responses, after.Responses)
	})
}

func TestFloodOfUnknownEndpointsIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		for n := range 5000 {
			route, err := routes.Match("GET", fmt.Sprintf("/made-up-%d/%d/more-%d/and-%d", n, n, n, n))
			require.NoError(t, err)
			lease, err := m.Acquire(context.Background(), route, bot)
			require.NoError(t, err)
			lease.Update(plain(404))
		}
		assert.LessOrEqual(t, m.Stats().Routes, 10)
		assert.LessOrEqual(t, m.Stats().Buckets, 20)
	})
}

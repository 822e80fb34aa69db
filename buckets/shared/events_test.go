package shared_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// TestHookIsCalledForWhatHappensToWhatIsShared causes every kind of event while a manager sends a request a second.
func TestHookIsCalledForWhatHappensToWhatIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory(t)
		var mu sync.Mutex
		var events []shared.Event
		m := managerOn(t, server, buckets.WithHooks(buckets.Hooks{Shared: func(e shared.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}}))
		told := func() (kinds []shared.EventKind) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range events {
				kinds = append(kinds, e.Kind)
			}
			return kinds
		}
		route, err := routes.Match("POST", "/channels/1/messages")
		require.NoError(t, err)
		send := func(n int) {
			for range n {
				lease, err := m.Acquire(t.Context(), route, "Bot token")
				require.NoError(t, err)
				lease.Update(ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Second, Bucket: "h"})
				time.Sleep(time.Second)
			}
		}
		send(3)
		require.Empty(t, told())
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		require.Equal(t, []shared.EventKind{shared.OutageBegan}, told())
		assert.ErrorContains(t, events[0].Cause, "connection refused")
		server.SetDown(false)
		send(3)
		require.Equal(t, []shared.EventKind{shared.OutageBegan, shared.OutageEnded}, told())
		assert.InDelta(t, 5, events[1].After.Seconds(), 1)
		server.Flush()
		send(5)
		require.Contains(t, told(), shared.StateLost)
		require.NotContains(t, told(), shared.ClockSet)
		server.StepClock(time.Minute)
		send(5)
		assert.Contains(t, told(), shared.ClockSet)
		assert.Equal(t, shared.StateLost, told()[len(told())-1])
		stats := m.Stats().Shared
		assert.EqualValues(t, 1, stats.Outages)
		assert.EqualValues(t, 1, stats.ClockSteps)
		require.NoError(t, m.Close())
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		assert.Equal(t, shared.StateLost, told()[len(told())-1], "nothing is told after Close")
	})
}

// TestSlowHookDelaysNoRequest tests that only the next event and Close wait for a slow hook.
func TestSlowHookDelaysNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory(t)
		m := managerOn(t, server, buckets.WithHooks(buckets.Hooks{Shared: func(shared.Event) { time.Sleep(time.Minute) }}))
		route, err := routes.Match("POST", "/channels/1/messages")
		require.NoError(t, err)
		send := func() {
			lease, err := m.Acquire(t.Context(), route, "Bot token")
			require.NoError(t, err)
			lease.Update(ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Second, Bucket: "h"})
		}
		send()
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		server.SetDown(false)
		start := time.Now()
		send()
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}

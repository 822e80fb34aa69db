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
	"github.com/ratelight/ratelight/routes"
)

// use acquires a permit of a bucket of five requests a second, and reports a success.
func use(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	route, err := routes.Match("POST", "/channels/1/messages")
	require.NoError(t, err)
	lease, err := m.Acquire(t.Context(), route, "Bot token")
	require.NoError(t, err)
	r := headers(5, 4, time.Second, 0)
	r.Bucket = "h"
	lease.Update(r)
}

// A manager sends one request a second. The server has an outage, the server loses its state, and the server's clock is
// set. The hook must be called for each of these events, and must not be called after Close.
func TestHookIsCalledForEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory(t)
		var mu sync.Mutex
		var events []shared.Event
		m := managerOn(t, server, buckets.WithHooks(buckets.Hooks{Shared: func(e shared.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}}))
		kinds := func() (all []shared.EventKind) {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range events {
				all = append(all, e.Kind)
			}
			return all
		}
		send := func(n int) {
			for range n {
				use(t, m)
				time.Sleep(time.Second)
			}
		}
		send(3)
		require.Empty(t, kinds())
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		require.Equal(t, []shared.EventKind{shared.OutageBegan}, kinds())
		assert.ErrorContains(t, events[0].Cause, "connection refused")
		server.SetDown(false)
		send(3)
		require.Equal(t, []shared.EventKind{shared.OutageBegan, shared.OutageEnded}, kinds())
		assert.InDelta(t, 5, events[1].After.Seconds(), 1)
		server.Flush()
		send(5)
		require.Contains(t, kinds(), shared.StateLost)
		require.NotContains(t, kinds(), shared.ClockSet)
		server.StepClock(time.Minute)
		send(5)
		assert.Contains(t, kinds(), shared.ClockSet)
		assert.Equal(t, shared.StateLost, kinds()[len(kinds())-1])
		stats := m.Stats().Shared
		assert.EqualValues(t, 1, stats.Outages)
		assert.EqualValues(t, 1, stats.ClockSteps)
		require.NoError(t, m.Close())
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		assert.Equal(t, shared.StateLost, kinds()[len(kinds())-1], "no event after Close")
	})
}

// Only the next event and Close may wait for a running hook.
func TestSlowHookDelaysNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory(t)
		m := managerOn(t, server, buckets.WithHooks(buckets.Hooks{Shared: func(shared.Event) { time.Sleep(time.Minute) }}))
		use(t, m)
		server.SetDown(true)
		time.Sleep(5 * time.Second)
		server.SetDown(false)
		start := time.Now()
		use(t, m)
		assert.Less(t, time.Since(start), 5*time.Second)
	})
}

func TestEventsHaveNames(t *testing.T) {
	t.Parallel()
	var names []string
	for kind := range shared.ProcessSuspended + 2 {
		names = append(names, kind.String())
	}
	assert.Equal(t, []string{
		"event(0)", "outage began", "outage ended", "state lost", "clock set", "process suspended", "event(6)",
	}, names)
}

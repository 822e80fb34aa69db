package buckets

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A gate takes a bucket out of its line before it can lock it. Meanwhile all who wait in the bucket may leave, and the others in line
// must not be lost with it.
func TestWhoLeavesWhileItsTurnComesTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithGlobalLimit(1))
		require.NoError(t, m.Start())
		defer m.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var served []int
		for channel := range 3 { // the first one is sent, the others are in line
			route, err := routes.CreateMessage.Compile(string(rune('1' + channel)))
			require.NoError(t, err)
			m.UpdateRateLimits(route, "Bot", ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 5, Remaining: 5, ResetAfter: time.Second})
			waits := t.Context()
			if channel == 1 {
				waits = ctx
			}
			m.AcquireFunc(waits, &Request{Route: route, Authorization: "Bot"}, func(lease Lease, err error) {
				lease.Release()
				if err == nil {
					served = append(served, channel)
				}
			})
			synctest.Wait()
		}
		var g *gate
		for _, a := range m.authentications.All() {
			g = a.global
		}
		g.mu.Lock()
		q := g.pop() // as serve does
		require.Equal(t, 1, g.queues.Len())
		g.mu.Unlock()
		cancel()
		synctest.Wait()
		q.bucket.serve(q, gatePermits{})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{0, 2}, served)
	})
}

// A queue keeps a permit of one declared limit while it stands in line for another. If all who wait in it leave when it is about to be
// served there, it gives back what it has kept.
func TestWhatAQueueHasKeptIsGivenBackIfAllLeaveWhileItsTurnComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(
			WithLimit(ForRoute(routes.CreateMessage), 1, time.Minute, PerMajor(), Named("channel")),
			WithLimit(ForRoute(routes.CreateMessage), 1, time.Hour, Named("route")))
		require.NoError(t, m.Start())
		defer m.Close()
		leave, cancel := context.WithCancel(t.Context())
		for channel, ctx := range []context.Context{t.Context(), leave} { // the first one is sent, the second waits for the route
			route, err := routes.CreateMessage.Compile(string(rune('1' + channel)))
			require.NoError(t, err)
			m.AcquireFunc(ContextWithMaxWait(ctx, 2*time.Hour), &Request{Route: route, Authorization: "Bot"}, func(lease Lease, err error) {
				lease.Update(ratelimits.Response{Status: 200})
			})
			synctest.Wait()
		}
		limits := map[string]*declaredLimit{}
		for key, d := range m.limits.All() {
			if key.major == noMajor || key.major.id == 2 {
				limits[key.rule.name] = d
			}
		}
		line := &limits["route"].line
		require.Equal(t, 1, limits["channel"].window.InFlight(), "it is kept")
		line.mu.Lock()
		q := line.pop() // as serve does
		line.mu.Unlock()
		require.NotNil(t, q)
		cancel()
		synctest.Wait()
		q.bucket.serve(q, gatePermits{})
		require.Zero(t, limits["channel"].window.InFlight())
	})
}

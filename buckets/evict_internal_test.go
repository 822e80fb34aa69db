package buckets

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A request may be in flight for so long that its route is forgotten. What its response says then does not spoil the count of
// the routes that share a bucket, so that two of them do not get two buckets.
func TestForgottenRouteIsNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithGlobalLimit(0), WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		answer := func(hash string) ratelimits.Response {
			return ratelimits.Response{Status: 200, Limited: true, Bucket: hash, Limit: 5, Remaining: 4, ResetAfter: time.Second}
		}
		send := func(route routes.Route) Lease {
			compiled, err := route.Compile("1")
			require.NoError(t, err)
			lease, err := m.Acquire(context.Background(), compiled, "Bot a")
			require.NoError(t, err)
			return lease
		}
		send(routes.CreateMessage).Update(answer("h"))
		slow := send(routes.CreateMessage)
		time.Sleep(3 * time.Hour) // the route is forgotten, its bucket is not
		require.Zero(t, m.entries.Size())
		send(routes.ListMessages).Update(answer("h"))
		slow.Update(answer("g")) // another hash
		time.Sleep(time.Minute)  // the bucket is forgotten, the route is not
		send(routes.CreateMessage).Update(answer("h"))
		home := func(route routes.Route) *limitGroup {
			compiled, err := route.Compile("1")
			require.NoError(t, err)
			return m.entry(&Request{Route: compiled, Authorization: "Bot a"}).group.Load()
		}
		require.Same(t, home(routes.ListMessages), home(routes.CreateMessage), "they named the same hash")
	})
}

// A server that nobody uses any more is forgotten when its hold is over, too.
func TestServerThatHasRefusedIsForgottenWhenItsHoldIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager()
		require.NoError(t, m.Start())
		defer m.Close()
		route, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		lease, err := m.AcquireRequest(context.Background(), &Request{Route: route, Server: "one.example"})
		require.NoError(t, err)
		lease.Update(ratelimits.Response{Status: 429, Class: ratelimits.ClassEdge, HasRetryAfter: true, RetryAfter: time.Second})
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		m.moves.Lock()
		defer m.moves.Unlock()
		assert.NotContains(t, m.servers, "one.example", "two days after a hold of a second")
	})
}

// Resources that were used up for everybody are remembered no longer than they are held: there may be very many in time.
func TestHoldsOfResourcesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		route, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		answer := ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 5, Remaining: 4, ResetAfter: time.Second}
		m.UpdateRateLimits(route, "Bot a", answer)
		answer.Status, answer.Class, answer.HasRetryAfter, answer.RetryAfter = 429, ratelimits.ClassShared, true, time.Minute
		m.UpdateRateLimits(route, "Bot a", answer)
		time.Sleep(59 * time.Second)
		require.Equal(t, 1, m.discord.holds.Size())
		time.Sleep(2*time.Second + DefaultPollPeriod)
		assert.Zero(t, m.discord.holds.Size())
	})
}

// Routes that were split, as they contradict each other, leave nothing behind when they are forgotten.
func TestLimitGroupsOfRoutesThatWereSplitAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithGlobalLimit(0), WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		for range 6 {
			for i, route := range []routes.Route{routes.CreateMessage, routes.ListMessages} {
				compiled, err := route.Compile("1")
				require.NoError(t, err)
				limit := 5 + 45*i
				m.UpdateRateLimits(compiled, "Bot a", ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: limit, Remaining: limit - 1, ResetAfter: time.Second})
			}
			time.Sleep(2 * time.Second)
		}
		a := anyAuthentication(m)
		m.moves.Lock()
		require.NotNil(t, a.groups[groupKey{kind: separateGroup, hash: "h", route: routes.CreateMessage}],
			"they share no bucket any more")
		m.moves.Unlock()
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		assert.Empty(t, a.groups)
		assert.Zero(t, m.authentications.Size())
	})
}

// Hashes of channels that nobody uses any more are forgotten, though the route is in use.
func TestHashesOfChannelsAreForgottenWhileTheRouteIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := declaring(t)
		use := func(channel string) {
			compiled, err := routes.CreateMessage.Compile(channel)
			require.NoError(t, err)
			m.UpdateRateLimits(compiled, "Bot a", ratelimits.Response{Status: 200, Limited: true, Bucket: channel, Limit: 5, Remaining: 4, ResetAfter: time.Second})
		}
		use("1")
		for range 2 {
			use("2")
		}
		a := anyAuthentication(m)
		known := func() bool {
			m.moves.Lock()
			defer m.moves.Unlock()
			return a.groups[groupKey{kind: hashGroup, hash: "2"}] != nil
		}
		require.True(t, known())
		for range 20 {
			time.Sleep(15 * time.Minute)
			use("1")
		}
		assert.False(t, known())
	})
}

// The collector may look at a restored route when a request comes with its credential. A route that is forgotten must not be found any more,
// as requests look for it until they find another one.
func TestRouteThatIsClaimedWhileItIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLogger(nil))
		require.NoError(t, m.Start())
		first, err := routes.GetMyUser.Compile()
		require.NoError(t, err)
		second, err := routes.GetBotGateway.Compile()
		require.NoError(t, err)
		lease, err := m.Acquire(context.Background(), first, "Bot a")
		require.NoError(t, err)
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 5, Remaining: 4, ResetAfter: time.Second})
		lease, err = m.Acquire(context.Background(), second, "Bot a")
		require.NoError(t, err)
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "g", Limit: 5, Remaining: 4, ResetAfter: time.Second})
		var state bytes.Buffer
		require.NoError(t, m.WriteState(&state))
		require.NoError(t, m.Close())

		m = NewRESTBucketManager(WithLogger(nil))
		require.NoError(t, m.Start())
		defer m.Close()
		require.NoError(t, m.RestoreState(&state))
		for _, e := range m.entries.All() {
			e.used.Store(false)
		}
		for _, e := range m.entries.All() {
			if e.route == routes.GetBotGateway {
				lease, err := m.Acquire(context.Background(), first, "Bot a")
				require.NoError(t, err)
				lease.Return()
				m.evictEntry(e)
			}
		}
		for _, e := range m.entries.All() {
			require.False(t, e.evicted.Load(), "%v is found by requests for ever", e.route)
		}
	})
}

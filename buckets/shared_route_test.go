package buckets_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestOneManagerDiscoversARouteForAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(probe *caller)
		follow int // how many of b's two requests leave at once
	}{
		"found":     {func(c *caller) { c.update(limited("messages", 3, 2, time.Second)) }, 2},
		"cancelled": {func(c *caller) { c.lease.Return() }, 1},
		"lost":      {func(c *caller) { c.lease.Release() }, 1},
		"failed":    {func(c *caller) { c.update(plain(502)) }, 1},
		"no hash":   {func(c *caller) { c.update(limited("", 3, 2, time.Second)) }, 1},
	} {
		subtest(t, name, func(t *testing.T) {
			a, b := pair(t, newStore(t))
			probe := ask(a, message(1))
			require.True(t, probe.granted())
			theirs := asks(b, message(1), 2)
			require.Equal(t, 0, granted(t, theirs))
			c.end(probe)
			exchanged()
			assert.Equal(t, c.follow, granted(t, theirs))
		})
	}
}

func TestUnusedPermissionToDiscoverIsReturned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := patientStore(t)
		a, b := pair(t, s)
		s.freeze(true)
		gone, stays := ask(a, message(1)), ask(b, message(1))
		gone.cancel()
		synctest.Wait()
		require.True(t, gone.done())
		s.freeze(false)
		assert.True(t, stays.granted())
	})
}

// The engine forgets the permission to discover a route while the probe is in flight. So another manager gets the
// permission and discovers the hash. From then on, requests must not wait for the old probe.
func TestProbeIsOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &noisy{store: newStore(t)}
		a, b := pair(t, s)
		probe, second := ask(a, message(1)), ask(a, message(1))
		require.True(t, probe.granted())
		for _, key := range s.Keys() {
			if strings.Contains(key, ":d:") {
				require.True(t, s.Evict(key))
			}
		}
		discoverShared(t, b, message(1), limited("messages", 3, 2, time.Minute))
		wait(1100 * time.Millisecond) // until the permission is confirmed
		s.changed()
		exchanged()
		assert.True(t, second.granted(), "there is room in the bucket that the other manager has found")
		assert.Equal(t, "messages", bucketOf(t, a, "1").Hash)
		probe.update(limited("messages", 3, 1, time.Minute))
	})
}

func TestHoldsReachAllManagers(t *testing.T) {
	t.Parallel()
	in429 := func(class ratelimits.Class) func(*testing.T, *buckets.RESTBucketManager) {
		return func(t *testing.T, m *buckets.RESTBucketManager) {
			discoverShared(t, m, message(1), inBucket(refused(class, 10*time.Second), "messages", 5, 4, time.Second))
		}
	}
	for name, c := range map[string]struct {
		hold  func(*testing.T, *buckets.RESTBucketManager) // begins a hold of ten seconds
		other bool                                         // whether another route of the credential is held, too
	}{
		"user":   {in429(ratelimits.ClassUser), false},
		"shared": {in429(ratelimits.ClassShared), false},
		"global": {in429(ratelimits.ClassGlobal), true},
		"UpdateRateLimits": {func(_ *testing.T, m *buckets.RESTBucketManager) {
			m.UpdateRateLimits(message(1), bot, usedUp("messages", 5, 10*time.Second))
			synctest.Wait()
		}, false},
		"throttle": {func(_ *testing.T, m *buckets.RESTBucketManager) {
			m.Throttle(10 * time.Second)
			synctest.Wait()
		}, true},
	} {
		subtest(t, name, func(t *testing.T) {
			a, b := sharers(t, 5)
			discoverShared(t, b, list(1), limited("list", 5, 4, time.Second))
			c.hold(t, a)
			exchanged()
			assert.Equal(t, !c.other, rightNow(b, list(1)).granted())
			queued := ask(b, message(1))
			wait(9 * time.Second)
			require.False(t, queued.done())
			assert.False(t, rightNow(b, message(1)).granted())
			wait(10 * time.Second) // one request goes first, or the hold is a little longer
			require.True(t, queued.granted())
		})
	}
}

func TestSubLimitsOfFieldsAreSeparate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, _ := sharers(t, 5)
		fields := func(names ...string) buckets.Request {
			return buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { return names }}
		}
		c := call(background, a, fields("name"))
		c.update(inBucket(refused(ratelimits.ClassSubLimit, 5*time.Second), "messages", 5, 4, time.Second))
		slow, fast := call(background, a, fields("name")), call(background, a, fields("topic"))
		require.False(t, slow.done())
		require.True(t, fast.granted())
		fast.lease.Release()
		wait(5500 * time.Millisecond)
		answer(t, slow, limited("messages", 5, 4, time.Second))
	})
}

// A request that waits for a sub-limit must have no place in the shared queue, so that it delays no other request.
func TestRequestThatWaitsForASubLimitLeavesTheSharedQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 1)
		first, slow := ask(a, message(1)), ask(a, message(1))
		theirs := askShared(b, message(1))
		first.update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.False(t, slow.done())
		require.True(t, theirs.granted())
	})
}

func TestTokensHaveSeparateBucketsInAllProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newStore(t))
		for _, m := range []*buckets.RESTBucketManager{a, b} {
			discoverShared(t, m, webhookPost("one"), limited("posts", 5, 0, time.Minute))
			assert.False(t, rightNow(m, webhookPost("one")).granted())
			discoverShared(t, m, webhookPost("two"), limited("posts", 5, 4, time.Second))
			wait(61 * time.Second)
		}
	})
}

// byRoute counts each route separately, as the store for the Spectacles protocol does.
type byRoute struct{ shared.Source }

func (byRoute) ByRoute() bool { return true }

// A route's successes name no limit, but its errors do. The errors' limit must not apply to the route, even in a source
// that counts each route separately.
func TestErrorsOfAnUnlimitedRouteHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"by hash": false, "by route": true} {
		subtest(t, name, func(t *testing.T) {
			var s shared.Source = newStore(t)
			if apart {
				s = byRoute{s}
			}
			m := started(t, buckets.WithShared(s))
			missing := limited("errors", 5, 0, 30*time.Second)
			missing.Status = 404
			wait(time.Millisecond)
			discover(t, m, message(1), missing)
			wait(31 * time.Second)
			discover(t, m, message(1), plain(200))
			wait(time.Millisecond)
			n := 0
			for range 20 {
				c := ask(m, message(1))
				wait(time.Millisecond)
				if c.granted() {
					n++
					c.update(plain(200))
				}
				c.cancel()
				wait(time.Millisecond)
			}
			assert.Equal(t, 20, n, "successes of this route name no limit")
			discover(t, m, list(1), limited("errors", 5, 0, time.Hour))
			pins := askShared(m, compile(routes.ListPins, "1"))
			pins.update(limited("errors", 5, 4, time.Hour))
			assert.Equal(t, apart, askShared(m, compile(routes.ListPins, "1")).granted(), "other routes use the same bucket")
		})
	}
}

// The hash of each channel must be known to all processes.
func TestHashOfEachChannelIsKnownToAllProcesses(t *testing.T) {
	t.Skip("the store keeps one hash for each route, and none for a channel")
	bubble(t, func(t *testing.T) {
		all := fleet(t, newStore(t), 2, one(discordsim.Rule{Quota: discordsim.Fixed(5, 10*time.Second), Vary: byChannel}))
		for channel := range 4 {
			all[0].post(channel+1, 5)
		}
		all[0].finish()
		for channel := range 4 {
			all[1].post(channel+1, 2)
		}
		all[1].finish()
		refusedNothing(t, all[0])
	})
}

// When a sub-limit holds a request again, that request must not delay requests of other processes.
func TestRequestThatASubLimitHoldsAgainReturnsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 2)
		name := buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { return []string{"name"} }}
		wait(2 * time.Second)
		first, second := call(background, a, name), call(background, a, name)
		require.True(t, first.granted() && second.granted())
		first.update(inBucket(refused(ratelimits.ClassSubLimit, time.Second), "messages", 2, 0, 4*time.Second))
		held := call(background, a, name)
		wait(2 * time.Second)
		require.False(t, held.done(), "the bucket is used up")
		second.update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 2, 0, 2*time.Second))
		others := asks(b, message(1), 2)
		wait(3 * time.Second)
		require.False(t, held.done())
		assert.Equal(t, 2, granted(t, others))
	})
}

// UpdateRateLimits must not end a probe, because it reports the response to another request. A hash that the response
// names must be known to the other managers at once.
func TestUpdateRateLimitsDoesNotEndAProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newStore(t))
		probe := ask(a, message(1))
		require.True(t, probe.granted())
		theirs := asks(b, message(1), 2)
		require.Zero(t, granted(t, theirs))
		a.UpdateRateLimits(message(1), bot, plain(502))
		exchanged()
		assert.Zero(t, granted(t, theirs), "the probe is in flight")
		a.UpdateRateLimits(message(1), bot, limited("messages", 5, 3, time.Second))
		exchanged()
		assert.Equal(t, 2, granted(t, theirs), "the hash is known")
	})
}

func TestEvictedLimitsReturnTheirLoans(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newStore(t), buckets.WithEviction(time.Second, 3*time.Second),
			buckets.WithLimit(buckets.ForAll(), 5, 2*time.Second))
		known(t, 2, a)
		discoverShared(t, a, message(1), limited("messages", 2, 1, time.Second))
		require.Equal(t, 2, a.Stats().Shared.Loans, "loans of the bucket and of the declared limit")
		wait(10 * time.Second)
		require.Zero(t, a.Stats().Shared.Loans)
		require.Zero(t, a.Stats().Buckets)
		for _, m := range []*buckets.RESTBucketManager{a, b} { // use the bucket again
			discoverShared(t, m, message(1), limited("messages", 2, 1, time.Second))
		}
	})
}

// A request of an unknown route must be charged, in all managers, to the buckets to which it may belong.
func TestRequestsOfUnknownRoutesAreChargedWhereTheyMayBelong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*caller)
		free bool
	}{
		"elsewhere": {func(c *caller) { c.update(limited("list", 5, 4, time.Second)) }, true},
		"there":     {func(c *caller) { c.update(limited("messages", 2, 1, time.Second)) }, false},
		"not sent":  {func(c *caller) { c.lease.Return() }, true},
		"lost":      {func(c *caller) { c.lease.Release() }, false},
	} {
		subtest(t, name, func(t *testing.T) {
			a, b := sharers(t, 2)
			probe := askShared(a, list(1))
			discoverShared(t, b, message(1), limited("messages", 2, 1, time.Second))
			next := askShared(b, message(1))
			require.True(t, probe.granted() && !next.done())
			c.end(probe)
			exchanged()
			assert.Equal(t, c.free, next.granted())
			wait(1100 * time.Millisecond)
			require.True(t, next.granted())
			next.lease.Release()
			wait(5 * time.Second)
			discoverShared(t, a, message(1), limited("messages", 2, 1, time.Second))
			assert.True(t, askShared(a, message(1)).granted(), "the earlier requests are not in flight any more")
		})
	}
}

// While a request that may belong to a bucket is in flight, the bucket must not be evicted.
func TestBucketToWhichARequestMayBelongIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithShared(newStore(t)))
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		probe := ask(m, list(1))
		wait(10 * time.Minute)
		snapshot(t, m, "messages")
		probe.update(limited("messages", 5, 4, time.Second))
		wait(10 * time.Minute)
		require.Empty(t, slices.Collect(m.Buckets()))
	})
}

// LiftHolds must not lift the holds of shared buckets, even if a bucket is lent to this process.
func TestLiftHoldsKeepsSharedHolds(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
		subtest(t, class.String(), func(t *testing.T) {
			m := started(t, buckets.WithShared(newStore(t)), buckets.WithMaxRateLimit(time.Hour))
			known(t, 5, m)
			answer(t, ask(m, message(1)), inBucket(refused(class, time.Minute), "messages", 5, 4, time.Second))
			m.LiftHolds()
			c := ask(m, message(1))
			for range 58 {
				wait(time.Second)
				m.LiftHolds()
			}
			assert.False(t, c.granted(), "the hold was lifted")
			wait(3 * time.Second)
			answer(t, c, limited("messages", 5, 4, time.Second))
		})
	}
}

package buckets_test

import (
	"strconv"
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

func (h *hub) probes() int {
	return h.count(func(h *hub) (n int) {
		for _, r := range h.routes {
			n += r.probes
		}
		return n
	})
}

func TestOneManagerDiscoversARouteForAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(probe *caller)
		follow int // of b's two, at once
		probes int
	}{
		"found":     {func(c *caller) { c.update(limited("messages", 3, 2, time.Second)) }, 2, 1},
		"cancelled": {func(c *caller) { c.lease.Return() }, 1, 2},
		"lost":      {func(c *caller) { c.lease.Release() }, 1, 2},
		"failed":    {func(c *caller) { c.update(plain(502)) }, 1, 2},
		"no hash":   {func(c *caller) { c.update(limited("", 3, 2, time.Second)) }, 1, 2},
	} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			a, b := pair(t, h)
			probe := ask(a, message(1))
			require.True(t, probe.granted())
			theirs := asks(b, message(1), 2)
			require.Equal(t, 0, granted(t, theirs))
			c.end(probe)
			synctest.Wait()
			assert.Equal(t, c.follow, granted(t, theirs))
			assert.Equal(t, c.probes, h.probes())
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			h.empty()
		})
	}
}

func TestUnusedPermissionToDiscoverIsReturned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		h.set(func(h *hub) { h.silent = true })
		gone, stays := ask(a, message(1)), ask(b, message(1))
		gone.cancel()
		synctest.Wait()
		require.True(t, gone.done())
		h.set(func(h *hub) { h.silent = false })
		assert.True(t, stays.granted())
		stays.lease.Return()
	})
}

// Another manager has discovered the hash while a probe is in flight. Requests no longer wait for the probe.
func TestProbeIsOvertaken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		probe := ask(a, message(1))
		second := ask(a, message(1))
		h.set(func(h *hub) {
			for _, r := range h.routes {
				r.hash = "messages"
			}
		})
		for _, r := range h.routes {
			require.Nil(t, r.holder)
		}
		require.False(t, second.done(), "the first request is in flight in the same bucket")
		probe.update(limited("messages", 3, 2, time.Second))
		require.True(t, second.granted())
		theirs := ask(b, message(1))
		require.True(t, theirs.granted())
		theirs.lease.Release()
		second.lease.Release()
	})
}

// Requests move between shared buckets when the hash changes. None is lost or sent too early.
func TestMovesBetweenSharedBuckets(t *testing.T) {
	t.Parallel()
	for _, term := range []time.Duration{0, 2 * time.Second} {
		for _, later := range []string{"other", ""} {
			subtest(t, term.String()+later, func(t *testing.T) {
				h := newHub(t)
				h.term = term
				quota := discordsim.Fixed(3, time.Second)
				change := discordsim.Change{At: 4 * time.Second, Hash: later}
				if later == "" {
					change.Quota = discordsim.Unlimited()
				}
				config := discordsim.Config{Global: discordsim.Unlimited(), Rules: []discordsim.Rule{
					{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: quota, Changes: []discordsim.Change{change}},
					{Path: "**", Hash: "other", Quota: quota},
				}}
				all := fleet(t, h, 2, config)
				for i := range 60 {
					w := all[i%2]
					w.post(1+i%3, 1)
					if i%4 == 0 {
						w.send(background, "GET", "/channels/"+strconv.Itoa(1+i%3)+"/messages", nil)
					}
					wait(100 * time.Millisecond)
				}
				for _, w := range all {
					assert.Less(t, w.finish(), 15*time.Second)
				}
				assert.Zero(t, refusals(all[0].Server))
				h.ends(t, all)
			})
		}
	}
}

func TestEach429ReachesAllManagers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class ratelimits.Class
		other bool // whether another route of the same credential is held, too
	}{{ratelimits.ClassUser, false}, {ratelimits.ClassShared, false}, {ratelimits.ClassGlobal, true}} {
		for _, term := range []time.Duration{0, 2 * time.Second} {
			subtest(t, c.class.String()+term.String(), func(t *testing.T) {
				h := newHub(t)
				a, b := pair(t, h)
				known(t, 5, a, b)
				discover(t, b, list(1), limited("list", 5, 4, time.Second))
				h.set(func(h *hub) { h.term = term })
				discover(t, a, message(1), inBucket(refused(c.class, 10*time.Second), "messages", 5, 4, time.Second))
				assert.True(t, tried(b, list(1)) != c.other)
				queued := ask(b, message(1))
				wait(9 * time.Second)
				require.False(t, queued.done())
				assert.False(t, tried(b, message(1)))
				wait(10 * time.Second) // one request goes first, or the hold is a little longer
				require.True(t, queued.granted())
				queued.lease.Release()
			})
		}
	}
}

// tried reports whether a request may leave now.
func tried(m *buckets.RESTBucketManager, route routes.CompiledRoute) bool {
	lease, err := m.TryAcquire(route, bot)
	lease.Return()
	return err == nil
}

func TestSubLimitsOfFieldsAreSeparate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 5, a, b)
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
		drained(t, a)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		h.empty()
	})
}

// A request that waits for a sub-limit has no place in the shared queue, so it delays no other request.
func TestRequestThatWaitsForASubLimitLeavesTheSharedQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 1, a, b)
		first, slow := ask(a, message(1)), ask(a, message(1))
		theirs := ask(b, message(1))
		first.update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.False(t, slow.done())
		require.True(t, theirs.granted())
		theirs.lease.Release()
		slow.cancel()
	})
}

func TestTokensHaveSeparateBucketsInAllProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newHub(t))
		for _, m := range []*buckets.RESTBucketManager{a, b} {
			discover(t, m, webhookPost("one"), limited("posts", 5, 0, time.Minute))
			assert.False(t, tried(m, webhookPost("one")))
			c := ask(m, webhookPost("two"))
			answer(t, c, limited("posts", 5, 4, time.Second))
			wait(61 * time.Second)
		}
	})
}

// byRouteHub counts each route separately, as the store for the Spectacles protocol does.
type byRouteHub struct{ *hub }

func (byRouteHub) ByRoute() bool { return true }

// The limit that errors of a route name does not apply to the route if its successes name no limit, also in a source
// that counts each route separately.
func TestErrorsOfAnUnlimitedRouteHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"by hash": false, "by route": true} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			var shared shared.Source = h
			if apart {
				shared = byRouteHub{h}
			}
			m := started(t, buckets.WithShared(shared))
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
		})
	}
}

// The hash of each channel is known to all processes.
func TestHashOfEachChannelIsKnownToAllProcesses(t *testing.T) {
	t.Skip("the store keeps one hash for each route, and none for a channel")
	bubble(t, func(t *testing.T) {
		h := newHub(t)
		all := fleet(t, h, 2, one(discordsim.Rule{Quota: discordsim.Fixed(5, 10*time.Second), Vary: byChannel}))
		for channel := range 4 {
			all[0].post(channel+1, 5)
		}
		all[0].finish()
		for channel := range 4 {
			all[1].post(channel+1, 2)
		}
		all[1].finish()
		refusedNothing(t, all[0])
		h.ends(t, all)
	})
}

// A request that a sub-limit holds again delays no request of other processes.
func TestRequestThatASubLimitHoldsAgainReturnsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 2, a, b)
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

// UpdateRateLimits does not end the probe, which is another request.
func TestUpdateRateLimitsDoesNotEndAProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		probe := ask(a, message(1))
		require.True(t, probe.granted())
		theirs := ask(b, message(1))
		require.False(t, theirs.done())
		a.UpdateRateLimits(message(1), bot, plain(502))
		synctest.Wait()
		assert.False(t, theirs.granted(), "the probe is in flight")
	})
}

package buckets_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// react returns the route that adds a reaction; unreact and unreactAll (below) return the routes that remove one
// reaction and all of them. These routes are a family.
func react(channel int) routes.CompiledRoute {
	return compile(routes.AddMyMessageReaction, strconv.Itoa(channel), "1", "x")
}

func unreact(channel int) routes.CompiledRoute {
	return compile(routes.DeleteMyMessageReaction, strconv.Itoa(channel), "1", "x")
}

func unreactAll(channel int) routes.CompiledRoute {
	return compile(routes.DeleteAllMessageReactions, strconv.Itoa(channel), "1")
}

func TestOneRouteOfAFamilyIsProbedForAll(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, react(1))
		second, third, elsewhere := ask(m, unreact(1)), ask(m, unreactAll(1)), ask(m, unreact(2))
		require.True(t, probe.granted())
		require.Equal(t, 0, granted(t, []*caller{second, third, elsewhere}))
		before := snapshot(t, m, buckets.UnknownHash)
		assert.Len(t, before.Routes, 3)
		assert.Empty(t, before.Route, "the bucket does not belong to a single route")
		probe.update(limited("reactions", 1, 0, 250*time.Millisecond))
		require.True(t, elsewhere.granted(), "the bucket of the other channel has room")
		require.False(t, second.granted() || third.granted())
		assert.Len(t, bucketOf(t, m, "1").Routes, 3)
		wait(260 * time.Millisecond)
		require.True(t, second.granted())
		require.False(t, third.granted(), "all three routes share a bucket of one request")
		second.update(limited("reactions", 1, 0, 250*time.Millisecond))
		wait(260 * time.Millisecond)
		require.True(t, third.granted())
	})
}

// reactionsOf returns the configuration of a server that accepts one request to reactions every 250 ms in each channel.
func reactionsOf() discordsim.Config {
	return discordsim.Config{
		Rules: []discordsim.Rule{{
			Path: "/channels/{id}/messages/{id}/reactions/**", Hash: "reactions",
			Quota: discordsim.Fixed(1, 250*time.Millisecond),
		}},
		Global: discordsim.Unlimited(),
	}
}

func TestRoutesOfAFamilyThatAreUsedForTheFirstTimeAtOnceAreNotRefused(t *testing.T) {
	t.Parallel()
	for _, channels := range []int{1, 10} {
		bubble(t, func(t *testing.T) {
			w := newWorld(t, reactionsOf())
			for channel := range channels {
				path := "/channels/" + strconv.Itoa(channel+1) + "/messages/5/reactions"
				w.send(background, "PUT", path+"/x/@me", nil)
				w.send(background, "DELETE", path+"/x/@me", nil)
				w.send(background, "DELETE", path, nil)
			}
			assert.Equal(t, 1, w.Report().MaxInFlight, "one request goes first")
			elapsed := w.finish()
			assert.Zero(t, w.Report().Refused.Total())
			assert.Less(t, elapsed, 650*time.Millisecond,
				"three requests in a channel, 250 ms apart, and a round trip for discovery")
		})
	}
}

func TestEachCredentialAndServerDiscoversAFamilyByItself(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]buckets.Request{
		"credential": {Authorization: "Bot two"}, "server": {Authorization: bot, Server: "elsewhere"},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, react(1), limited("reactions", 5, 4, time.Minute))
			of := func(route routes.CompiledRoute) *caller {
				other.Route = route
				return call(background, m, other)
			}
			first, second := of(unreact(1)), of(react(1))
			require.False(t, second.granted())
			answer(t, first, limited("other reactions", 5, 4, time.Minute))
			answer(t, second, limited("other reactions", 5, 3, time.Minute))
		})
	}
}

// The hint for a route of a family names the wrong hash. Until the route's first response arrives, only one request of
// the route at a time may be in flight in a bucket. Then this response must decide to which bucket the route belongs.
func TestFamilyWithTwoHashes(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("adding", 5, 4, time.Minute))
		others := asks(m, unreact(1), 4)
		require.Equal(t, 1, granted(t, others), "the first request of the route goes alone")
		others[0].update(limited("removing", 2, 1, time.Minute))
		assert.Equal(t, 2, granted(t, others), "as many as the route's own bucket allows")
		assert.Equal(t, 4, bucketOfMajor(t, m, "adding", "1").Remaining,
			"the bucket that the wrong hint named must not stay charged")
		require.True(t, ask(m, unreact(2)).granted())
		assert.Equal(t, 1, bucketOfMajor(t, m, "removing", "2").InFlight, "the whole route has moved")
	})
}

func bucketOfMajor(t *testing.T, m *buckets.RESTBucketManager, hash, major string) (found buckets.LimitSnapshot) {
	t.Helper()
	n := 0
	for b := range m.Buckets() {
		if b.Hash == hash && b.Major == major {
			found = b
			n++
		}
	}
	require.Equal(t, 1, n, "buckets of %s in %s", hash, major)
	return found
}

// Because of a wrong hint, requests of a route wait for the bucket of another route. As soon as a response shows the
// route's own bucket, these requests must leave.
func TestAWrongHintIsNoReasonToWait(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("adding", 1, 0, time.Minute))
		discover(t, m, react(2), limited("adding", 2, 1, time.Minute))
		first, second := ask(m, unreact(1)), ask(m, unreact(1))
		require.False(t, first.granted() || second.granted(), "the bucket of the hint is used up")
		discover(t, m, unreact(2), limited("removing", 2, 1, time.Minute))
		require.True(t, first.granted(), "the route has another bucket")
		first.update(limited("removing", 2, 1, time.Minute))
		require.True(t, second.granted())
	})
}

func TestAMistakeIsNotRepeatedWhenTheRouteHasBeenForgotten(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("adding", 1, 0, time.Second))
		wait(2 * time.Second)
		discover(t, m, unreact(1), limited("removing", 5, 4, time.Second))
		for range 200 { // meanwhile unreact's route is forgotten
			wait(time.Minute)
			discover(t, m, react(1), limited("adding", 1, 0, time.Second))
		}
		require.Equal(t, 1, m.Stats().Routes)
		wait(2 * time.Second)
		ask(m, react(1))
		again, more := ask(m, unreact(1)), ask(m, unreact(1))
		require.True(t, again.granted(), "the route must not wait for the bucket of a wrong hint")
		require.False(t, more.granted(), "the route is unknown, so one request goes first")
		assert.Equal(t, "DELETE /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me",
			snapshot(t, m, buckets.UnknownHash).Route)
		again.update(limited("removing", 5, 4, time.Second))
		require.True(t, more.granted())
	})
}

func TestARouteThatIsForgottenComesBackByTheHint(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, unreact(1), limited("reactions", 5, 4, time.Second))
		discover(t, m, react(1), limited("reactions", 5, 3, time.Second))
		for range 200 {
			wait(time.Minute)
			discover(t, m, react(1), limited("reactions", 5, 4, time.Second))
		}
		require.Equal(t, 1, m.Stats().Routes)
		ask(m, unreact(1))
		assert.Equal(t, 1, bucketOfMajor(t, m, "reactions", "1").InFlight)
	})
}

// The first response of a family may be a success, an error or a 429, or may never arrive. After that, a certain number
// of requests of the family's other routes must leave at once, and none may wait for ever.
func TestFirstResponseOfAFamily(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first func(buckets.Lease)
		want  int // how many of the two requests to other routes leave at once
	}{
		{"limits", update(limited("reactions", 5, 4, time.Second)), 2},
		{"nothing remains", update(limited("reactions", 5, 0, time.Second)), 0},
		{"no headers", update(plain(200)), 2},
		{"limits without a hash", update(limited("", 5, 4, time.Second)), 1}, // both routes may share a bucket
		{"not found, no headers", update(plain(404)), 1},
		{"server error", update(plain(502)), 1},
		{"lost", buckets.Lease.Release, 1},
		{"never sent", buckets.Lease.Return, 1},
		{"refused", update(usedUp("reactions", 1, 2*time.Second)), 0},
		{"refused without a hash", update(refused(ratelimits.ClassUser, 2*time.Second)), 1},
		{"refused globally", update(refused(ratelimits.ClassGlobal, 2*time.Second)), 0},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			probe, others := ask(m, react(1)), []*caller{ask(m, unreact(1)), ask(m, unreactAll(1))}
			c.first(probe.lease)
			synctest.Wait()
			require.Equal(t, c.want, granted(t, others))
			wait(3 * time.Second)
			for range others {
				for _, o := range others {
					if o.granted() {
						o.update(limited("reactions", 5, 3, time.Second))
					}
				}
				wait(3 * time.Second)
			}
			assert.Equal(t, 2, granted(t, others), "no request waits for ever")
		})
	}
}

func TestACancelledProbeOfAFamilyIsFollowedByAnother(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe, second, third := ask(m, react(1)), ask(m, unreact(1)), ask(m, unreactAll(1))
		second.cancel()
		synctest.Wait()
		probe.lease.Release()
		synctest.Wait()
		answer(t, third, limited("reactions", 2, 0, time.Second))
		last := ask(m, react(1))
		require.False(t, last.granted(), "the lost request may have been counted, too")
		wait(1100 * time.Millisecond)
		require.True(t, last.granted())
	})
}

func TestAFamilyMovesWithItsHash(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("before", 5, 4, time.Second))
		discover(t, m, unreact(1), limited("before", 5, 3, time.Second))
		for channel := 1; channel <= 2; channel++ {
			discover(t, m, react(channel), limited("before", 5, 2, time.Second))
			discover(t, m, react(channel), limited("after", 5, 4, time.Second))
		}
		c := ask(m, unreactAll(1))
		assert.Contains(t, bucketOfMajor(t, m, "after", "1").Routes, c.request.Route.Route().String(),
			"the hint is the family's latest hash")
		c.update(limited("after", 5, 3, time.Second))
		c = ask(m, unreact(1))
		assert.Contains(t, bucketOfMajor(t, m, "before", "1").Routes, c.request.Route.Route().String(),
			"the route's own responses have named that hash")
		c.update(limited("after", 5, 2, time.Second))
		discover(t, m, unreact(1), limited("after", 5, 1, time.Second))
	})
}

func TestARouteThatIsKnownByAHintIsNotUnknown(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("reactions", 5, 0, 10*time.Second))
		wait(time.Second)
		predicted, because := predict(t, m, request(unreact(1)))
		assert.Equal(t, buckets.WaitsForWindow, because)
		assert.InDelta(t, 9, predicted.Seconds(), 0.1)
		_, err := m.TryAcquire(unreact(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, "reactions", tooLong.Bucket)
		waiting := ask(m, unreact(1))
		status := m.Status(10)
		require.Len(t, status.Buckets, 1)
		assert.Equal(t, "reactions", status.Buckets[0].Hash)
		assert.Len(t, status.Buckets[0].Routes, 2)
		wait(10 * time.Second)
		require.True(t, waiting.granted())
		ask(m, react(1)).update(limited("reactions", 5, 3, time.Second))
		more := ask(m, unreact(1))
		_, because = predict(t, m, request(unreact(1)))
		assert.Equal(t, buckets.WaitsForProbe, because)
		waiting.update(limited("reactions", 5, 4, time.Second))
		require.True(t, more.granted())
	})
}

func TestFamiliesAreKnownAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, react(1), limited("reactions", 3, 2, time.Minute))
		c := ask(m, unreact(1)) // only a hint names the hash of this route
		unknown := ask(m, compile(routes.GetGuildMember, "9", "2"))
		m = successor(t, stateOf(t, m, true))
		c.lease.Release()
		unknown.lease.Release()
		members := []*caller{ask(m, compile(routes.GetGuildMember, "9", "2")),
			ask(m, compile(routes.DeleteGuildMember, "9", "2"))}
		require.Equal(t, 1, granted(t, members), "both routes are still unknown and share one bucket")
		first := ask(m, unreactAll(1))
		require.True(t, first.granted())
		assert.Equal(t, 1, bucketOfMajor(t, m, "reactions", "1").InFlight)
		first.update(limited("reactions", 3, 0, time.Minute))
		require.False(t, ask(m, unreact(1)).granted(), "the bucket is used up")
	})
}

// Only an error has named a route's hash. That hash must still be known after a restart.
func TestAHashThatAnErrorHasNamedIsKnownAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		failure := limited("reactions", 9, 8, time.Minute)
		failure.Status = 404
		m := started(t)
		discover(t, m, react(1), failure)
		m = successor(t, stateOf(t, m, true))
		all := []*caller{ask(m, react(1)), ask(m, react(2))}
		require.Equal(t, 2, granted(t, all), "the hash does not have to be discovered again")
		ask(m, unreact(1)).update(limited("successes", 9, 0, time.Minute))
		assert.False(t, ask(m, unreactAll(1)).granted(), "the success overrules the error and names a used-up bucket")
	})
}

// After a restart, a hint must still be only a hint. It must not count as a hash that the route's own responses have
// named.
func TestAHintSurvivesARestart(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]ratelimits.Response{
		"no limits":             plain(200),
		"limits without a hash": limited("", 9, 8, time.Minute),
		"a hash":                limited("reactions", 9, 8, time.Second),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, react(1), first)
			ask(m, unreact(1)).lease.Return()
			m = successor(t, stateOf(t, m, false))
			wait(time.Minute + time.Second)
			discover(t, m, react(1), first)
			waiting := asks(m, unreact(1), 3)
			require.Equal(t, 1, granted(t, waiting), "the first request of the route goes alone")
			waiting[0].update(first)
			assert.Equal(t, 3, granted(t, waiting))
		})
	}
}

func TestUnknownUnlimitedDoesNotTryHints(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithUnknownMode(buckets.UnknownUnlimited))
		all := append(asks(m, react(1), 3), asks(m, unreact(1), 3)...)
		require.Equal(t, 6, granted(t, all))
		all[0].update(limited("reactions", 20, 14, time.Second))
		all = append(all, asks(m, unreact(1), 2)...)
		require.Equal(t, 7, granted(t, all[1:]))
	})
}

// If a route's own responses have named its bucket, its requests must not wait while the hint for another route is
// tested.
func TestARouteThatIsKnownDoesNotWaitForAHint(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, react(1), limited("reactions", 9, 8, time.Minute))
		first, hinted := ask(m, unreact(1)), asks(m, unreact(1), 3)
		known := asks(m, react(1), 2)
		require.True(t, first.granted())
		assert.Equal(t, 0, granted(t, hinted))
		assert.Equal(t, 2, granted(t, known))
		first.update(plain(404)) // proves nothing
		assert.Equal(t, 1, granted(t, hinted), "one request at a time")
		known = append(known, ask(m, react(1)))
		assert.Equal(t, 3, granted(t, known))
		hinted[0].update(limited("reactions", 9, 5, time.Minute))
		assert.Equal(t, 3, granted(t, hinted), "the hint was right")
		known = append(known, asks(m, react(1), 2)...)
		assert.Equal(t, 4, granted(t, known), "the bucket is used up")
	})
}

// Some requests wait for a bucket because of a hint, others because of their route's own responses. All must be sent in
// the order of their arrival.
func TestRoutesWithAHintKeepTheirPlaceInTheQueue(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discoverPunctual(t, m, react(1), limited("reactions", 1, 0, time.Second))
		var all []*caller
		for i := range 6 {
			all = append(all, ask(m, []routes.CompiledRoute{unreact(1), react(1), unreactAll(1)}[i%3]))
		}
		for i := range all {
			wait(1010 * time.Millisecond)
			require.Equal(t, i+1, granted(t, all))
			all[i].update(limited("reactions", 1, 0, time.Second))
		}
	})
}

// The routes of a family share a bucket of one request, except the route that is used first. So the first response
// gives a wrong hint. This hint may cause at most one 429 for each channel.
func TestAWrongHintDrawsOneRefusalAtMost(t *testing.T) {
	t.Parallel()
	const first = "/channels/{id}/messages/{id}/reactions/{x}/@me"
	for name, rule := range map[string]discordsim.Rule{
		"another hash": {Quota: discordsim.Fixed(50, time.Second), Hash: "adding"},
		"no limits":    {Quota: discordsim.Unlimited()},
		"an error": {Quota: discordsim.Fixed(1, 250*time.Millisecond), Hash: "reactions", Faults: []discordsim.Fault{
			{Nth: []int{1}, Status: 404, Uncounted: true, Set: map[string]string{
				"X-RateLimit-Bucket": "errors", "X-RateLimit-Limit": "50",
				"X-RateLimit-Remaining": "49", "X-RateLimit-Reset-After": "1",
			}},
		}},
	} {
		rule.Method, rule.Path = "PUT", first
		for _, channels := range []int{1, 5} {
			subtest(t, fmt.Sprintf("%s, %d channels", name, channels), func(t *testing.T) {
				config := reactionsOf()
				config.Rules = append([]discordsim.Rule{rule}, config.Rules...)
				w := newWorld(t, config)
				for range 2 {
					for channel := range channels {
						path := "/channels/" + strconv.Itoa(channel+1) + "/messages/5/reactions"
						w.send(background, "PUT", path+"/x/@me", nil)
						for _, of := range []string{"/x/@me", "", "/x", "/x/77", "/x/0/@me"} {
							w.send(background, "DELETE", path+of, nil)
						}
					}
				}
				elapsed := w.finish()
				assert.LessOrEqual(t, w.Report().Refused.Total(), channels)
				assert.Less(t, elapsed, 4*time.Second,
					"twelve requests in a channel, 250 ms apart, and the delay after one 429")
			})
		}
	}
}

// Three processes that share limits must discover a family's bucket together.
func TestManagersThatShareProbeAFamilyOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := fleet(t, newStore(t), 3, reactionsOf())
		for _, w := range all {
			for channel := range 2 {
				path := "/channels/" + strconv.Itoa(channel+1) + "/messages/5/reactions"
				w.send(background, "PUT", path+"/x/@me", nil)
				w.send(background, "DELETE", path+"/x/@me", nil)
				w.send(background, "DELETE", path, nil)
			}
		}
		start := time.Now()
		for _, w := range all {
			w.finish()
		}
		assert.Zero(t, all[0].Report().Refused.Total())
		assert.Less(t, time.Since(start), 2400*time.Millisecond, "nine requests in a channel, 250 ms apart")
	})
}

func TestAHintOfAnotherProcessIsOverruledByTheRoutesOwnResponse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newStore(t))
		discoverShared(t, a, react(1), limited("adding", 5, 4, time.Minute))
		first, second := ask(b, unreact(1)), ask(b, unreact(1))
		wait(time.Second)
		require.True(t, first.granted(), "the hint names a bucket with room")
		require.False(t, second.granted(), "the second request waits for the first response")
		first.update(limited("removing", 2, 1, time.Minute))
		wait(time.Second)
		require.True(t, second.granted())
	})
}

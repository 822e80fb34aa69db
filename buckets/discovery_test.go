package buckets_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A route's hash changes once while six requests are in flight. In whatever order their responses arrive, the route
// must not be treated as one whose hash keeps changing.
func TestOneChangeOfAHashIsOneChange(t *testing.T) {
	t.Parallel()
	old, new := limited("old", 50, 40, time.Minute), limited("new", 50, 40, time.Minute)
	for name, order := range map[string][]int{
		"in order":       {0, 1, 2, 3, 4, 5},
		"reversed":       {5, 4, 3, 2, 1, 0},
		"new before old": {3, 0, 4, 1, 5, 2},
		"all new first":  {3, 4, 5, 0, 1, 2},
	} {
		for _, separate := range []time.Duration{0, time.Millisecond} {
			subtest(t, name+" "+separate.String(), func(t *testing.T) {
				m := started(t)
				discover(t, m, message(1), old)
				var inFlight []*caller
				for range 6 {
					inFlight = append(inFlight, ask(m, message(1)))
					wait(separate)
				}
				for _, i := range order {
					if i < 3 { // sent before the hash changed
						inFlight[i].update(old)
					} else {
						inFlight[i].update(new)
					}
				}
				ask(m, message(1)).update(new)
				all := asks(m, message(1), 20)
				assert.Equal(t, 20, granted(t, all), "all requests are sent together")
				assert.Equal(t, 20, snapshot(t, m, "new").InFlight)
			})
		}
	}
}

// The response to a newer request has named a new hash. After that, the response to an older request names the old
// hash. The older request must be charged both in the bucket of the old hash and in the route's new bucket.
func TestOvertakenAnswerIsChargedTwice(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("old", 5, 4, time.Minute))
		early := ask(m, message(1))
		wait(time.Millisecond)
		ask(m, message(1)).update(limited("new", 5, 4, time.Minute))
		early.update(limited("old", 5, 3, time.Minute))
		assert.Equal(t, 3, snapshot(t, m, "new").Remaining)
		assert.LessOrEqual(t, snapshot(t, m, "old").Remaining, 3)
	})
}

// The responses to three requests arrive in the order third, first, second. The response to the second request names
// another hash. This response must not change the route's hash, because the third request is newer.
func TestAnswerToAnOlderRequestDoesNotMakeItTheNewest(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		here := limited("here", 50, 40, time.Minute)
		discover(t, m, message(1), here)
		var sent []*caller
		for range 3 {
			wait(time.Millisecond)
			sent = append(sent, ask(m, message(1)))
		}
		sent[2].update(here)
		sent[0].update(here)
		sent[1].update(limited("elsewhere", 50, 40, time.Minute))
		ask(m, message(1))
		assert.Equal(t, 1, snapshot(t, m, "here").InFlight)
	})
}

// byChannel makes the server use a separate bucket hash for each channel.
func byChannel(call discordsim.Call) discordsim.Variant {
	return discordsim.Variant{Hash: "hash of " + call.Major}
}

// Each channel has its own hash. No request may be refused, and the requests of each channel must leave as fast as its
// limit allows.
func TestHashOfItsOwnForEachChannel(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed":   discordsim.Fixed(5, time.Second),
		"sliding": discordsim.Sliding(5, time.Second),
		"leaky":   discordsim.Leaky(5, time.Second),
	} {
		subtest(t, name, func(t *testing.T) {
			config := one(discordsim.Rule{Quota: quota, Vary: byChannel})
			config.Latency = discordsim.Latency{RoundTrip: 600 * time.Millisecond, Jitter: 10 * time.Millisecond}
			w := newWorld(t, config)
			for range 3 {
				start := time.Now()
				for range 10 {
					for channel := range 8 {
						w.post(channel+1, 1)
					}
				}
				w.finish()
				assert.Less(t, time.Since(start), 5*time.Second, "requests must not be sent one at a time")
				wait(2 * time.Second)
			}
			refusedNothing(t, w)
		})
	}
}

// Three hashes are shared by three channels each. In the end, each channel must be in the bucket of its own hash.
func TestHashForSomeChannels(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, one(discordsim.Rule{
			Quota: discordsim.Fixed(5, time.Second),
			Vary: func(call discordsim.Call) discordsim.Variant {
				n, _ := strconv.Atoi(call.Major)
				return discordsim.Variant{Hash: "group " + strconv.Itoa(n%3)}
			},
		}))
		for range 30 {
			for channel := range 9 {
				w.post(channel+1, 1)
			}
			wait(100 * time.Millisecond)
		}
		w.finish()
		refusedNothing(t, w)
		for b := range w.manager.Buckets() {
			if n, err := strconv.Atoi(b.Major); err == nil && b.Limit > 0 && b.InFlight > 0 {
				assert.Equal(t, "group "+strconv.Itoa(n%3), b.Hash)
			}
		}
	})
}

// The hash of a whole route changes. When a second channel names the new hash, all other channels must move to this
// hash.
func TestRouteMovesWhenTwoChannelsNameTheSameHash(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for channel := range 4 {
			discover(t, m, message(channel+1), limited("old", 5, 4, 10*time.Second))
		}
		used := asks(m, message(4), 4)
		updateAll(used, limited("old", 5, 0, 10*time.Second))
		ask(m, message(1)).update(limited("new", 5, 4, 10*time.Second))
		assert.Equal(t, 4, bucketOfMajor(t, m, "old", "2").Remaining, "only one channel has named the new hash")
		ask(m, message(2)).update(limited("new", 5, 4, 10*time.Second))
		third, fourth := ask(m, message(3)), ask(m, message(4))
		assert.True(t, third.granted())
		assert.Equal(t, 1, bucketOfMajor(t, m, "new", "3").InFlight)
		assert.False(t, fourth.granted(),
			"the channel's old bucket was used up, and the new one may count the same requests")
		third.update(limited("new", 5, 3, 10*time.Second))
		wait(11 * time.Second)
		require.True(t, fourth.granted())
	})
}

// Channels with their own hashes must be forgotten after their buckets are evicted.
func TestHomesOfChannelsAreForgottenWithTheirBuckets(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for channel := range 200 {
			discover(t, m, message(channel+1), limited("hash of "+strconv.Itoa(channel+1), 5, 4, time.Second))
		}
		wait(time.Minute)
		assert.Zero(t, m.Stats().Buckets)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Routes)
		assert.Zero(t, m.Stats().Authentications, "the credential is forgotten, too")
		for range 2 {
			discover(t, m, message(7), limited("hash of 7", 5, 4, time.Second))
		}
		all := asks(m, message(7), 4)
		assert.Equal(t, 3, granted(t, all))
	})
}

// When a channel with its own hash is forgotten and discovered again, the other channels must not move.
func TestChannelThatIsFoundOutAgainMovesItselfOnly(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, channel := range []int{1, 2} {
			discover(t, m, message(channel), limited("common", 5, 4, 5*time.Hour))
		}
		discover(t, m, list(3), limited("other", 5, 4, 5*time.Hour))
		for range 2 {
			discover(t, m, message(1), limited("other", 5, 4, time.Second))
			wait(2 * time.Hour) // the bucket is evicted, and then the channel's hash is forgotten
		}
		require.True(t, ask(m, message(2)).granted())
		for b := range m.Buckets() {
			assert.False(t, b.Hash == "other" && b.Major == "2")
		}
	})
}

// Before a route moved, one channel named a new hash. When another channel names this hash after the move, the route
// must not move as if two channels had named the hash.
func TestHashThatOneChannelNamedBeforeTheRouteMovedSaysNothing(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		failed := func(hash string) ratelimits.Response {
			r := limited(hash, 5, 4, time.Minute)
			r.Status = 400
			return r
		}
		for _, c := range []struct {
			channel int
			r       ratelimits.Response
		}{
			{1, failed("old")}, {1, failed("new")}, {2, plain(200)}, // successes seem to have no limits
			{3, limited("old", 5, 3, time.Minute)}, {3, limited("new", 5, 4, time.Minute)}, // now successes have limits
		} {
			discover(t, m, message(c.channel), c.r)
		}
		require.True(t, ask(m, message(2)).granted())
		for b := range m.Buckets() {
			assert.False(t, b.Hash == "new" && b.Major == "2", "since the move, only one channel has named the new hash")
		}
	})
}

// Two routes share a channel's bucket. When the bucket has been evicted, the manager must still know that the routes
// share a bucket.
func TestRoutesShareTheBucketOfAChannelAgain(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for channel := range 2 {
			hash := "hash of " + strconv.Itoa(channel+1)
			discover(t, m, message(channel+1), limited(hash, 5, 4, time.Second))
			discover(t, m, list(channel+1), limited(hash, 5, 3, time.Second))
		}
		wait(30 * time.Minute)
		require.Zero(t, m.Stats().Buckets)
		discover(t, m, list(2), limited("hash of 2", 5, 0, time.Minute))
		assert.False(t, ask(m, message(2)).granted())
	})
}

// A channel first names a hash of its own, and later the hash of the route's other channels. From then on, the channel
// must be treated like the others again.
func TestChannelComesBackToItsRoute(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		old, new := limited("old", 5, 4, 10*time.Second), limited("new", 5, 4, 10*time.Second)
		for channel := range 5 {
			discover(t, m, message(channel+1), old)
		}
		discover(t, m, message(1), new)
		discover(t, m, message(2), new) // now two channels have named "new", so the route moves
		discover(t, m, message(5), new)
		for _, channel := range []int{3, 4} { // each of these responses moves only its own channel
			discover(t, m, message(channel), old)
			discover(t, m, message(channel), old)
		}
		discover(t, m, message(3), new)
		first, second := ask(m, message(4)), ask(m, message(4))
		first.update(new)
		second.update(usedUp("new", 5, 10*time.Second))
		second.again(m)
		assert.False(t, second.granted())
		wait(11 * time.Second)
		require.True(t, second.granted())
		assert.Equal(t, 1, bucketOfMajor(t, m, "new", "4").InFlight)
	})
}

// A 429 names a bucket that is not the route's. The refused request must still wait for the 429's Retry-After.
func TestRefusedRequestWaitsWhereItComesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		is    ratelimits.Response // all responses except the 429
		first bool                // the 429 arrives first
	}{
		{"a newer request's response arrives first", limited("old", 50, 40, time.Second), false},
		{"only errors have a limit", plain(200), false},
		{"only errors have a limit, and a success arrives later", plain(200), true},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), c.is)
			early := ask(m, message(1))
			wait(time.Millisecond)
			later := ask(m, message(1))
			if !c.first {
				later.update(c.is)
			}
			early.update(usedUp("new", 50, 10*time.Second))
			if c.first {
				later.update(c.is)
			}
			early.again(m)
			wait(9 * time.Second)
			assert.False(t, early.granted())
			wait(2 * time.Second)
			require.True(t, early.granted())
		})
	}
}

// The successes of a route name no limit, but its errors do. The limit of errors must not hold back requests of the
// route.
func TestErrorsOfAnUnlimitedRouteHaveALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	missing := limited("errors", 5, 0, 30*time.Second)
	missing.Status = 404
	for _, first := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := started(t)
			if first {
				discover(t, m, message(1), missing)
				wait(31 * time.Second)
			}
			discover(t, m, message(1), plain(200))
			for range 3 {
				all := asks(m, message(1), 20)
				require.Equal(t, 20, granted(t, all))
				for i, c := range all {
					if i%2 == 0 {
						c.update(missing)
					} else {
						c.update(plain(200))
					}
				}
			}
			// Nevertheless, a 429 holds the route until its Retry-After has passed. The next success makes the route unlimited
			// again.
			c := ask(m, message(1))
			c.update(usedUp("errors", 5, time.Minute))
			c.again(m)
			require.False(t, c.granted())
			wait(time.Minute + time.Second)
			answer(t, c, plain(200))
			all := asks(m, message(1), 20)
			require.Equal(t, 20, granted(t, all))
		})
	}
}

// refusedNothing asserts that the server refused no request. The failure message shows the first refusal.
func refusedNothing(t *testing.T, w *world) {
	t.Helper()
	if refusals := w.Refusals(); len(refusals) > 0 {
		assert.Fail(t, "refused", "%d, the first %+v", w.Report().Refused.Total(), refusals[0])
	}
}

// The hash of a bucket that two routes share changes once. In whatever order the responses arrive, neither route may be
// treated as one whose hash keeps changing.
func TestOneChangeOfAHashIsOneChangeWhereTwoRoutesShareABucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		old, new := limited("old", 50, 40, time.Minute), limited("new", 50, 40, time.Minute)
		for _, route := range []routes.CompiledRoute{message(1), list(1)} {
			discover(t, m, route, old)
			wait(time.Millisecond)
		}
		var early []*caller // sent before the hash changed, and answered late
		for range 4 {
			early = append(early, ask(m, message(1)))
			wait(time.Millisecond)
		}
		for _, late := range early {
			post, get := ask(m, message(1)), ask(m, list(1))
			wait(time.Millisecond)
			post.update(new)
			wait(time.Millisecond)
			get.update(new)
			wait(time.Millisecond)
			late.update(old) // responses to newer requests of this route have already named "new"
			wait(time.Millisecond)
		}
		wait(time.Second)
		ask(m, message(1)).update(new)
		wait(time.Millisecond)
		all := asks(m, message(1), 10)
		assert.Equal(t, 10, granted(t, all), "all requests are sent together")
	})
}

// Two routes that named one hash with different limits got separate buckets. When both name the same limit again, they
// must share a bucket again, even if one of the routes was forgotten meanwhile.
func TestRoutesThatAgreeAgainShareTheirBucketAfterOneWasForgotten(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]time.Duration{"remembered": 10 * time.Second, "forgotten": 5 * time.Hour} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			for range 8 {
				discover(t, m, message(1), limited("same", 5, 4, time.Second))
				wait(time.Millisecond)
				discover(t, m, list(1), limited("same", 50, 49, time.Second))
				wait(2 * time.Second)
			}
			separate, other := message(1), list(1)
			for b := range m.Buckets() {
				if b.Hash == "same" && b.Route == list(1).Route().String() {
					separate, other = other, separate
				}
			}
			for range 10 { // only the separate route is used
				wait(idle / 10)
				discover(t, m, separate, limited("same", 20, 19, time.Second))
				bySelf := func(b buckets.LimitSnapshot) bool { return b.Route == separate.Route().String() }
				require.True(t, slices.ContainsFunc(slices.Collect(m.Buckets()), bySelf), "the limits still differ")
			}
			for range 8 { // both name the same limit now
				wait(2 * time.Second)
				discover(t, m, other, limited("same", 20, 19, time.Second))
				wait(10 * time.Millisecond)
				discover(t, m, separate, limited("same", 20, 18, time.Second))
			}
			wait(2 * time.Second)
			n := 0
			for range 20 {
				for _, route := range []routes.CompiledRoute{separate, other} {
					c := ask(m, route)
					if c.granted() {
						n++
						c.lease.Release()
					}
					c.cancel()
					wait(0)
				}
			}
			assert.LessOrEqual(t, n, 20, "the shared bucket allows 20 requests")
		})
	}
}

// Each channel has its own hash. Requests to some channels get a 404. Like all others, these requests must be limited
// by the buckets of their channels' hashes.
func TestChannelThatIsNotThereIsLimitedByItsOwnHash(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := newWorld(t, one(discordsim.Rule{
			Quota: discordsim.Fixed(5, 10*time.Second),
			Vary: func(call discordsim.Call) discordsim.Variant {
				v := byChannel(call)
				if call.Major != "1" {
					v.Status = 404
				}
				return v
			},
		}))
		w.post(1, 1)
		w.finish()
		for channel := range 4 {
			w.post(channel+2, 7)
		}
		w.finish()
		refusedNothing(t, w)
	})
}

// A route's hash kept changing, so the requests were sent one at a time. When the hash is trusted again, all requests
// that are already waiting must be sent together.
func TestSingleFileEndsWithTheReasonForIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		flip(t, m, message(1), 8)
		for range 2 {
			all := asks(m, message(1), 3)
			for i, c := range all {
				require.Equal(t, i+1, granted(t, all), "one at a time")
				c.update(limited("first", 50, 49, time.Second))
			}
			wait(10*time.Minute - time.Second)
		}
		inFlight := ask(m, message(1)) // from its response on, the route's hash is trusted again
		waiting := asks(m, message(1), 20)
		inFlight.update(limited("first", 50, 49, time.Second))
		wait(time.Millisecond)
		late := ask(m, message(1))
		assert.Equal(t, "first", bucketOfMajor(t, m, "first", "1").Hash)
		assert.Equal(t, 20, granted(t, waiting), "the bucket has room for 49")
		assert.True(t, late.granted(), "the bucket has room for a new request, too")
	})
}

package buckets_test

import (
	"bytes"
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

func TestUnseenRouteSendsOneRequestFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ callers, limit int }{{2, 5}, {5, 5}, {6, 5}, {40, 5}, {3, 1}, {10, 10}, {11, 50}} {
		subtest(t, fmt.Sprintf("%d callers, limit %d", c.callers, c.limit), func(t *testing.T) {
			m := started(t)
			all := asks(m, message(1), c.callers)
			wait(patience - time.Millisecond)
			require.Equal(t, 1, granted(t, all), "the others wait for the first response")
			all[0].update(limited("messages", c.limit, c.limit-1, time.Minute))
			assert.Equal(t, 1+min(c.limit-1, c.callers-1), granted(t, all),
				"the others follow at once, up to the limit")
		})
	}
}

// Nine requests wait for the first response of their route, which may be a success, an error or a 429, or may never
// arrive. The test checks how many of the nine are granted after the outcome of the first request, and which bucket
// they are in.
func TestFirstAnswerOfAnUnseenRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		first func(buckets.Lease)
		after time.Duration
		want  int // how many of the nine have left after that time
		hash  string
	}{
		{"everything remains", update(limited("messages", 5, 5, time.Second)), 0, 4, "messages"},
		{"nothing remains", update(limited("messages", 5, 0, time.Second)), 0, 0, "messages"},
		{"nothing left, reset over", update(limited("messages", 5, 0, time.Second)), 1002 * time.Millisecond, 1, "messages"},
		{"window has already ended", update(limited("messages", 5, 4, 0)), 2 * time.Millisecond, 5, "messages"},
		{"no headers", update(plain(200)), 0, 9, ""},
		{"redirect, no headers", update(plain(302)), 0, 9, ""},
		{"not found, no headers", update(plain(404)), 0, 1, buckets.UnknownHash},
		{"bad request, no headers", update(plain(400)), 0, 1, buckets.UnknownHash},
		{"forbidden, no headers", update(plain(403)), 0, 1, buckets.UnknownHash},
		{"limits without a hash", update(limited("", 5, 4, time.Second)), 0, 4, ""},
		{"hash without limits", update(ratelimits.Response{Status: 200, Bucket: "messages"}), 0, 1, "messages"},
		{"server error", update(plain(502)), 0, 1, buckets.UnknownHash},
		{"not authorised", update(plain(401)), 0, 1, buckets.UnknownHash},
		{"lost", buckets.Lease.Release, 0, 1, buckets.UnknownHash},
		{"cancelled before it was sent", buckets.Lease.Return, 0, 1, buckets.UnknownHash},
		{"refused",
			update(usedUp("messages", 5, 2*time.Second)),
			2 * time.Second, 0, "messages"},
		{"refused, hold over",
			update(usedUp("messages", 5, 2*time.Second)),
			2500 * time.Millisecond, 1, "messages"},
		{"refused without a hash", update(refused(ratelimits.ClassUser, 2*time.Second)), 2500 * time.Millisecond, 1, ""},
		{"refused for the resource",
			update(inBucket(refused(ratelimits.ClassShared, 2*time.Second), "messages", 5, 4, 2*time.Second)),
			2500 * time.Millisecond, 1, "messages"},
		{"refused globally", update(refused(ratelimits.ClassGlobal, 2*time.Second)), 2 * time.Second, 0, buckets.UnknownHash},
		{"refused globally, hold over",
			update(refused(ratelimits.ClassGlobal, 2*time.Second)), 2002 * time.Millisecond, 1, buckets.UnknownHash},
		{"refused at the edge",
			update(refused(ratelimits.ClassEdge, 2*time.Second)), 2500 * time.Millisecond, 1, buckets.UnknownHash},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			probe, others := ask(m, message(1)), asks(m, message(1), 9)
			c.first(probe.lease)
			synctest.Wait()
			if c.after > 0 {
				wait(c.after)
			}
			assert.Equal(t, c.want, granted(t, others))
			hashes := make(map[string]int)
			for b := range m.Buckets() {
				hashes[b.Hash] += b.Waiting + b.InFlight
			}
			assert.Equal(t, map[string]int{c.hash: 9}, nonZero(hashes), "the bucket of all nine requests")
		})
	}
}

func update(r ratelimits.Response) func(buckets.Lease) {
	return func(l buckets.Lease) { l.Update(r) }
}

func nonZero(counts map[string]int) map[string]int {
	for key, n := range counts {
		if n == 0 {
			delete(counts, key)
		}
	}
	return counts
}

func TestSnapshotShowsUnknownUntilTheHashIsLearnt(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, message(7))
		before := snapshot(t, m, buckets.UnknownHash)
		assert.Equal(t, "POST /channels/{channel_id}/messages", before.Route)
		assert.Equal(t, "-", before.Major, "the UNKNOWN bucket is the same for all channels")
		assert.Zero(t, before.Limit)
		assert.Equal(t, 1, before.InFlight)
		probe.update(limited("messages", 5, 3, time.Second))
		after := snapshot(t, m, "messages")
		assert.Equal(t, "7", after.Major)
		assert.Equal(t, 5, after.Limit)
		assert.Equal(t, 3, after.Remaining)
		assert.Zero(t, after.InFlight)
	})
}

func TestUnlimitedRouteIsCheckedAgainByEveryAnswer(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]ratelimits.Response{
		"limits and a hash": limited("messages", 3, 0, time.Second),
		"limits alone":      limited("", 3, 0, time.Second),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), plain(200))
			first, second := ask(m, message(1)), ask(m, message(1))
			require.True(t, first.granted() && second.granted())
			first.update(r)
			third := ask(m, message(1))
			assert.False(t, third.granted(), "the response has shown a limit")
			b := snapshot(t, m, r.Bucket)
			assert.Equal(t, 3, b.Limit)
			assert.False(t, b.Unlimited)
			second.update(r)
			wait(1100 * time.Millisecond)
			assert.True(t, third.granted())
		})
	}
}

func TestUnknownUnlimitedSendsEverythingAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithUnknownMode(buckets.UnknownUnlimited))
		shared := started(t, buckets.WithUnknownMode(buckets.UnknownUnlimited), buckets.WithShared(newStore(t)))
		require.Equal(t, 20, granted(t, asks(shared, message(1), 20)), "also if processes share limits")
		all := asks(m, message(1), 20)
		require.Equal(t, 20, granted(t, all), "the UNKNOWN bucket has no limit")
		all[0].update(limited("messages", 5, 4, time.Second))
		late := ask(m, message(1))
		assert.False(t, late.granted(), "the bucket is known now, and all requests in flight count in it")
		for i, c := range all[1:] {
			if i < 4 {
				c.update(limited("messages", 5, 3-i, time.Second))
			} else {
				c.update(usedUp("messages", 5, time.Second))
			}
		}
		wait(3 * time.Second)
		assert.True(t, late.granted())
	})
}

func TestUnknownModeThatDoesNotExistIsTheDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithUnknownMode(99))
		all := asks(m, message(1), 3)
		assert.Equal(t, 1, granted(t, all))
	})
}

func TestOneShotRoutesAreNotDiscovered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(5))
		for n := range 20 {
			c := call(background, m, buckets.Request{Route: callback(n)})
			assert.True(t, c.granted(), "one-shot requests do not wait for each other or for the global limit")
			c.update(plain(204))
		}
		assert.Zero(t, m.Stats().Waited)
	})
}

// Requests of an unknown route got errors without limit headers, but the server may have counted them. As soon as a
// response, whether a success or a 429, names the hash and the limit, the failed requests must be charged in their
// buckets. A 429 also says when the current period of the refused request's own bucket ends.
func TestWhatWasLostBeforeTheHashWasKnownIsChargedWhereItBelongs(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]ratelimits.Response{
		"by a success": limited("messages", 1, 0, 2*time.Second),
		"by a refusal": usedUp("messages", 1, 1500*time.Millisecond),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			// In the case of the 429, this request has used up the bucket.
			ask(m, message(1)).update(plain(503))
			wait(500 * time.Millisecond)
			ask(m, message(2)).update(plain(503))
			ask(m, message(1)).update(found)
			again, other := ask(m, message(2)), ask(m, message(3))
			require.True(t, other.granted(), "nothing was sent to channel 3")
			wait(1900 * time.Millisecond)
			require.False(t, again.granted(), "the failed request was sent less than a period ago")
			wait(200 * time.Millisecond)
			require.True(t, again.granted())
		})
	}
}

// Requests fail for five minutes before a 429 names the limit. The manager must not treat that time as the limit's
// period.
func TestPeriodIsNotTakenForAsLongAsAnOutage(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for range 60 {
			ask(m, message(2)).update(plain(503))
			wait(5 * time.Second)
		}
		ask(m, message(1)).update(usedUp("messages", 5, 1500*time.Millisecond))
		c := ask(m, message(2))
		wait(2 * time.Second)
		require.True(t, c.granted())
	})
}

// Failed requests of an unknown route were charged in a bucket to which they may belong. When the route turns out to
// belong to that bucket, the failed requests must not be charged again.
func TestLostRequestIsNotChargedTwice(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("same", 8, 7, 10*time.Second))
		for range 2 {
			ask(m, list(1)).update(plain(503))
		}
		require.Equal(t, 5, snapshot(t, m, "same").Remaining)
		discover(t, m, list(1), limited("same", 8, 4, 10*time.Second)) // the server has counted all requests
		assert.Equal(t, 4, snapshot(t, m, "same").Remaining)
	})
}

// The outcome of a request is not known. The request must be charged in all buckets to which it may belong, for a
// period from its end.
func TestLostRequestsAreChargedWhereTheyMayCount(t *testing.T) {
	t.Parallel()
	one := limited("messages", 1, 0, 10*time.Second)
	for name, c := range map[string]struct {
		play  func(t *testing.T, m *buckets.RESTBucketManager)
		next  routes.CompiledRoute
		waits time.Duration
	}{
		"lost before the hash was known": {func(t *testing.T, m *buckets.RESTBucketManager) {
			ask(m, message(2)).update(plain(503))
			wait(9 * time.Second)
			discover(t, m, message(1), one)
		}, message(2), time.Second},
		"lost after a long time": {func(t *testing.T, m *buckets.RESTBucketManager) {
			slow := ask(m, message(2))
			wait(12 * time.Second)
			slow.update(plain(503))
			wait(5 * time.Second)
			discover(t, m, message(1), one)
		}, message(2), 5 * time.Second},
		"two lost, of two that the bucket allows": {func(t *testing.T, m *buckets.RESTBucketManager) {
			ask(m, message(1)).lease.Release()
			ask(m, message(1)).update(plain(502))
			discover(t, m, message(3), limited("messages", 2, 1, 10*time.Second))
		}, message(1), 10 * time.Second},
		"one lost, of two that the bucket allows": {func(t *testing.T, m *buckets.RESTBucketManager) {
			ask(m, message(1)).update(plain(502))
			discover(t, m, message(3), limited("messages", 2, 1, 10*time.Second))
		}, message(1), 0},
		"another route of the family": {func(t *testing.T, m *buckets.RESTBucketManager) {
			ask(m, react(1)).lease.Release()
			discover(t, m, unreact(1), limited("reactions", 2, 0, 10*time.Second))
		}, unreact(1), 10 * time.Second},
		"a new channel of a known hash": {func(t *testing.T, m *buckets.RESTBucketManager) {
			discover(t, m, message(1), one)
			discover(t, m, message(2), plain(503))
		}, message(2), 10 * time.Second},
		"a bucket that was forgotten before": {func(t *testing.T, m *buckets.RESTBucketManager) {
			discover(t, m, message(1), one)
			wait(5 * time.Minute)
			ask(m, list(1)).lease.Release()
		}, message(1), 10 * time.Second},
		"not lost": {func(t *testing.T, m *buckets.RESTBucketManager) {
			discover(t, m, message(1), one)
			wait(5 * time.Minute)
			discover(t, m, list(1), plain(404))
		}, message(1), 0},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			c.play(t, m)
			next := ask(m, c.next)
			if c.waits > 0 {
				wait(c.waits - roundings)
				require.False(t, next.done())
				wait(2 * roundings)
			}
			assert.True(t, next.granted())
		})
	}
}

// Errors without limit headers prove nothing about an unknown route. After such an error, one request at a time is sent
// for each major parameter.

// erring returns the configuration of a server. Until the given time, the server answers all requests with an error
// without limit headers. After that, the server has a bucket of one request per second.
func erring(status int, until time.Duration) discordsim.Config {
	return discordsim.Config{
		Rules: []discordsim.Rule{{
			Path: "**", Quota: discordsim.Fixed(1, time.Second), Hash: "posts",
			Faults: []discordsim.Fault{{Until: until, Status: status, Uncounted: true, Drop: []string{
				"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After", "X-RateLimit-Bucket",
			}}},
		}},
		Global:  discordsim.Unlimited(),
		Latency: discordsim.Latency{RoundTrip: 100 * time.Millisecond},
	}
}

func TestErrorsWithoutLimitsGoOneAtATimeForEachChannelOnly(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403, 404, 500, 502, 503} {
		subtest(t, strconv.Itoa(status), func(t *testing.T) {
			w := newWorld(t, erring(status, time.Hour))
			for channel := range 20 {
				w.post(1+channel, 1)
			}
			assert.Equal(t, 1, w.Report().MaxInFlight, "one request goes first")
			assert.Less(t, w.finish(), 210*time.Millisecond, "the others follow together")
		})
	}
}

// After a 404, one request per channel is sent. When all of them have got a 401, which refuses the credential, requests
// must be sent one at a time.
func TestRequestsOfARefusedCredentialGoOneAtATimeAfterOtherErrors(t *testing.T) {
	t.Parallel()
	for name, route := range map[string]func(int) routes.CompiledRoute{"route": message, "family": react} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			probe := ask(m, route(1))
			var all []*caller
			for channel := range 20 {
				all = append(all, ask(m, route(2+channel)))
			}
			probe.update(plain(404))
			require.Equal(t, 20, granted(t, all), "one request in each channel")
			for channel := range 20 {
				all = append(all, ask(m, route(2+channel)))
			}
			for i, c := range all[:20] {
				c.update(plain(401))
				require.Equal(t, 20, granted(t, all[:20]))
				require.Equal(t, i == 19, all[20].granted(), "the next request waits until none is in flight")
			}
			for i := range 20 {
				require.Equal(t, 21+i, granted(t, all), "one at a time")
				all[20+i].update(plain(401))
			}
		})
	}
}

func TestErrorsWithoutLimitsDrawNoRefusalWhereTheRouteIsLimitedAfterAll(t *testing.T) {
	t.Parallel()
	for _, until := range []time.Duration{50, 150, 250, 950} {
		subtest(t, fmt.Sprint(until), func(t *testing.T) {
			w := newWorld(t, erring(404, until*time.Millisecond))
			for range 6 {
				for channel := range 10 {
					w.post(1+channel, 1)
				}
			}
			w.finish()
			assert.Zero(t, w.Report().Refused.Total())
		})
	}
}

// Follow-ups to interactions that have expired fail. Each has its own token, so none may wait for another.
func TestManyFollowUpsThatFailAreConcurrentAndForgotten(t *testing.T) {
	t.Parallel()
	const many = 9000
	bubble(t, func(t *testing.T) {
		// The requests in flight would exceed their share of a budget, so the manager gets no budget.
		m := started(t, buckets.WithInvalidBudget(0, 0, 0))
		ask(m, followUp(0)).update(plain(404))
		leases := make([]buckets.Lease, many)
		for i := range leases {
			lease, err := m.Acquire(buckets.ContextWithMaxWait(background, 0), followUp(1+i), "")
			require.NoError(t, err, "no follow-up may wait")
			leases[i] = lease
		}
		for _, lease := range leases {
			lease.Update(plain(404))
		}
		wait(2 * time.Minute)
		assert.Zero(t, m.Stats().Buckets)
	})
}

func TestASuccessEndsTheDoubtForAllChannels(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		ask(m, message(1)).update(plain(404))
		first, waiting, other := ask(m, message(1)), asks(m, message(1), 3), asks(m, message(2), 3)
		require.True(t, first.granted())
		require.Equal(t, 0, granted(t, waiting))
		require.Equal(t, 1, granted(t, other))
		first.update(plain(200))
		assert.Equal(t, 3, granted(t, waiting))
		assert.Equal(t, 3, granted(t, other))
	})
}

// After an error, the routes of a family together send one request at a time in each channel, because they share a
// bucket.
func TestErrorsOfAFamilyGoOneAtATimeInAChannel(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, react(1))
		in1, in2 := []*caller{ask(m, unreact(1)), ask(m, unreactAll(1))},
			[]*caller{ask(m, unreact(2)), ask(m, react(2))}
		probe.update(plain(404))
		require.Equal(t, 1, granted(t, in1))
		require.Equal(t, 1, granted(t, in2))
		for _, c := range append(in1, in2...) {
			if c.granted() {
				c.update(limited("reactions", 1, 0, time.Second))
			}
		}
		wait(1100 * time.Millisecond)
		assert.Equal(t, 2, granted(t, in1))
		assert.Equal(t, 2, granted(t, in2))
	})
}

func TestManagersThatShareDrawNoRefusalAfterErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		all := fleet(t, newStore(t), 3, erring(404, 350*time.Millisecond))
		for range 3 {
			for _, w := range all {
				for channel := range 3 {
					w.post(1+channel, 1)
				}
			}
		}
		for _, w := range all {
			w.finish()
		}
		assert.Zero(t, all[0].Report().Refused.Total())
	})
}

func TestErringRoutesAreUnknownAfterARestart(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		ask(m, message(1)).update(plain(404))
		ask(m, compile(routes.GetGuildMember, "9", "2")).update(plain(404))
		var state bytes.Buffer
		require.NoError(t, m.WriteState(&state))
		require.NoError(t, m.Close())
		m = started(t)
		require.NoError(t, m.RestoreState(&state))
		wait(time.Second)
		both := asks(m, message(1), 2)
		assert.Equal(t, 1, granted(t, both))
		assert.True(t, ask(m, message(2)).granted())
		members := []*caller{ask(m, compile(routes.GetGuildMember, "9", "2")),
			ask(m, compile(routes.DeleteGuildMember, "9", "2"))}
		assert.Equal(t, 1, granted(t, members))
	})
}

package buckets_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Errors without limit headers prove nothing about an unknown route. After such an error, one request at a time is sent
// for each major parameter.

// erring configures a server that answers all requests until the given time with an error without limit headers, and
// then with successes from a bucket of one request.
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

// After a 404, one request per channel was sent. When all of these get a 401, which refuses the credential, requests
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
		// So many requests in flight would exceed their share of a budget.
		m := started(t, buckets.WithInvalidBudget(0, 0, 0))
		ask(m, followUp(0)).update(plain(404))
		leases := make([]buckets.Lease, many)
		for i := range leases {
			lease, err := m.Acquire(buckets.ContextWithMaxWait(background, 0), followUp(1+i), "")
			require.NoError(t, err, "a follow-up waits")
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

// After an error, the routes of a family send one request at a time in a channel together, because they share a bucket.
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
		h := newHub(t)
		all := fleet(t, h, 3, erring(404, 350*time.Millisecond))
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
		h.ends(t, all)
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

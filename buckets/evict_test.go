package buckets_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// often returns options that make the garbage collector run once in each poll period and evict every bucket whose reset
// has passed.
func often(poll time.Duration) []buckets.Option {
	return []buckets.Option{buckets.WithEviction(poll, 0)}
}

func TestIdleBucketIsKeptUntilItsResetHasPassed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                       string
		reset, expireAfter, passed time.Duration
		kept                       bool
	}{
		{"reset far ahead, expireAfter 0", time.Hour, 0, 30 * time.Minute, true},
		{"reset now, within expireAfter", 0, 10 * time.Minute, 9 * time.Minute, true},
		{"reset now, after expireAfter", 0, 10 * time.Minute, 11 * time.Minute, false},
		{"reset long ago, expireAfter 0", time.Second, 0, time.Hour, false},
		{"reset in the past, within expireAfter", time.Minute, time.Minute, 110 * time.Second, true},
		{"reset in the past, after expireAfter", time.Minute, time.Minute, 125 * time.Second, false},
		{"negative expireAfter", time.Second, -time.Hour, 5 * time.Second, false},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t, buckets.WithEviction(time.Second, c.expireAfter))
			discover(t, m, message(1), limited("messages", 5, 4, c.reset))
			wait(c.passed)
			kept := 0
			for b := range m.Buckets() {
				if b.Hash == "messages" {
					kept++
				}
			}
			assert.Equal(t, map[bool]int{true: 1, false: 0}[c.kept], kept)
			if !c.kept {
				assert.Equal(t, uint64(2), m.Stats().Evicted, "this bucket and the UNKNOWN one")
			}
		})
	}
}

func TestPollPeriodOfZeroOrLessIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, poll := range []time.Duration{0, -1, math.MinInt64} {
		subtest(t, poll.String(), func(t *testing.T) {
			m := started(t, buckets.WithEviction(time.Second, time.Hour), buckets.WithEviction(poll, 0))
			discover(t, m, message(1), limited("messages", 5, 4, time.Second))
			wait(buckets.DefaultPollPeriod - time.Second)
			assert.NotZero(t, m.Stats().Buckets)
			wait(2 * time.Second)
			assert.Zero(t, m.Stats().Buckets)
		})
	}
}

// With WithClock, a manager must use only the given clock, both for waits and for evictions.
func TestGivenClockDecides(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		m := started(t, buckets.WithClock(clock), buckets.WithEviction(20*time.Second, 10*time.Second))
		advance := func(d time.Duration) {
			clock.Advance(d)
			synctest.Wait()
		}
		discover(t, m, message(1), limited("messages", 1, 0, 15*time.Second))
		waiting := ask(m, message(1))
		wait(time.Hour) // on the clock of the bubble
		assert.False(t, waiting.done())
		assert.Equal(t, 2, m.Stats().Buckets)
		advance(15 * time.Second)
		assert.False(t, waiting.done(), "the request waits a millisecond longer, because the server rounds the reset")
		advance(time.Millisecond)
		assert.True(t, waiting.granted())
		waiting.update(limited("messages", 1, 0, 15*time.Second))

		for range 5 { // the collector runs at 20 s and 40 s; the reset is shortly after 30 s
			advance(5 * time.Second)
			assert.Equal(t, 1, m.Stats().Buckets)
		}
		advance(20 * time.Second)
		assert.Zero(t, m.Stats().Buckets)

		require.NoError(t, m.Close())
		require.NoError(t, m.Start())
		discover(t, m, message(1), plain(204))
		advance(2 * buckets.DefaultPollPeriod)
		assert.Zero(t, m.Stats().Buckets, "the collector runs again after a restart")
	})
}

// The garbage collector runs while a request is in flight. Whatever the outcome of that request is, the request must
// not count as in flight after its end, and the next request must be granted.
func TestOutcomeAfterACollectionIsSettled(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(buckets.Lease){
		"the known hash": update(limited("messages", 5, 3, time.Second)),
		"another hash":   update(limited("other", 5, 3, time.Second)),
		"no headers":     update(plain(204)),
		"server error":   update(plain(500)),
		"refused":        update(usedUp("messages", 5, time.Second)),
		"lost":           buckets.Lease.Release,
		"never sent":     buckets.Lease.Return,
	} {
		for _, known := range []bool{true, false} {
			subtest(t, fmt.Sprintf("%s, known before: %v", name, known), func(t *testing.T) {
				m := started(t, often(time.Minute)...)
				if known {
					discover(t, m, message(1), limited("messages", 5, 4, time.Second))
				}
				c := ask(m, message(1))
				wait(5 * time.Hour) // long enough for the route to be forgotten as well
				end(c.lease)
				drained(t, m)
				wait(2 * time.Minute)
				assert.Zero(t, m.Stats().Buckets)
				assert.True(t, ask(m, message(1)).granted())
			})
		}
	}
}

// The period of a bucket changes before the bucket is evicted. When the bucket is created again, it must have the
// latest period, not the first.
func TestNewBucketHasTheLatestPeriodOfTheEvictedOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, often(time.Second)...)
		discover(t, m, message(1), limited("messages", 5, 3, 4*time.Second)) // another client has begun the window
		wait(3 * time.Second)
		discover(t, m, message(1), limited("messages", 5, 2, time.Second))
		wait(time.Second + 10*time.Millisecond)
		discover(t, m, message(1), limited("messages", 5, 4, 10*time.Second))
		learnt := snapshot(t, m, "messages")
		require.Equal(t, 10*time.Second, learnt.Period)
		wait(15 * time.Second)
		require.Zero(t, m.Stats().Buckets)
		ask(m, message(1))
		found := snapshot(t, m, "messages")
		assert.Equal(t, learnt.Limit, found.Limit)
		assert.Equal(t, learnt.Period, found.Period)
	})
}

// A 429 has shown a hidden limit (one that no header shows). The limit must be kept after the hold ends. Otherwise, the
// next burst would get as many 429s as the first.
func TestHiddenLimitIsNotForgottenWithItsHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, often(time.Second)...)
		burst := func() (left []*caller) {
			var all []*caller
			for range 5 {
				all = append(all, call(background, m, buckets.Request{Route: message(1)}))
			}
			wait(0)
			if all[0].granted() {
				all[0].update(limited("messages", 5, 4, time.Second)) // after a hold, the first request goes alone
				wait(0)
			}
			for _, c := range all[1:] {
				if c.granted() {
					left = append(left, c)
				} else {
					c.cancel()
				}
			}
			wait(0)
			return left
		}
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		wait(2 * time.Second)
		left := burst()
		require.Len(t, left, 4)
		left[0].update(limited("messages", 5, 3, time.Second))
		updateAll(left[1:], inBucket(refused(ratelimits.ClassShared, 30*time.Second), "messages", 5, 2, time.Second))
		wait(50 * time.Second)
		left = burst()
		require.Len(t, left, 1, "the first request and this one: as many as the server accepted in the first burst")
		updateAll(left, limited("messages", 5, 3, time.Second))
		wait(time.Hour)
		leftOver := 0
		for range m.Buckets() {
			leftOver++
		}
		require.Zero(t, leftOver, "the buckets are evicted in the end")
	})
}

func TestInteractionsLeaveNothingBehind(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		most := 0
		for n := range 20_000 {
			for _, route := range []routes.CompiledRoute{callback(n), followUp(n)} {
				lease, err := m.Acquire(background, route, "")
				require.NoError(t, err)
				if route.Route().OneShot() {
					lease.Update(plain(204))
				} else {
					lease.Update(limited("follow-ups", 5, 4, 2*time.Second))
				}
			}
			if n%100 == 99 {
				time.Sleep(time.Second)
			}
			most = max(most, m.Stats().Buckets)
		}
		assert.Less(t, most, 2*100*45, "at most the buckets of the last 45 s")
		time.Sleep(15 * time.Minute)
		s := m.Stats()
		assert.Zero(t, s.Buckets)
		assert.Equal(t, 2, s.Routes)
		assert.GreaterOrEqual(t, s.Evicted, uint64(40_000))
	})
}

func TestRoutesAreForgottenWhenNobodyUsesThem(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		for n := range 50 {
			as(m, fmt.Sprintf("Bearer %d", n), list(1)).update(limited("messages", 5, 4, time.Second))
		}
		for range 10 {
			wait(6 * time.Minute)
			ask(m, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		assert.Equal(t, 51, m.Stats().Routes, "routes are kept for at least an hour")
		for range 10 {
			wait(6 * time.Minute)
			ask(m, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		s := m.Stats()
		assert.Equal(t, 1, s.Routes, "only the route in use is kept")
		assert.Equal(t, 1, s.Authentications)
		waiting := asks(m, message(1), 2)
		assert.Equal(t, 2, granted(t, waiting), "the route's hash is still known")
	})
}

func TestAuthenticationIsKeptAsLongAsItIsHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		ask(m, message(1)).update(refused(ratelimits.ClassGlobal, 5*time.Hour))
		wait(5*time.Hour - time.Minute)
		held := ask(m, message(2))
		assert.False(t, held.granted(), "a hold of hours stays when the route is forgotten")
		wait(2 * time.Minute)
		assert.True(t, held.granted())
		held.update(roomy)
		wait(3 * time.Hour)
		assert.Zero(t, m.Stats().Authentications)
	})
}

// A request whose bucket belongs to a webhook token is in flight while the garbage collector runs. When this request
// gets a global 429, the other requests of its credential must be held.
func TestAuthenticationIsKeptWhileARequestIsInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, often(time.Second)...)
		c := call(background, m, buckets.Request{Route: webhookPost("token"), Authorization: bot})
		wait(time.Minute)
		answer(t, c, refused(ratelimits.ClassGlobal, time.Minute))
		assert.False(t, ask(m, message(1)).done())
	})
}

// The statistics of a server must stay in Stats when the server is forgotten.
func TestNumbersOfAForgottenServerAreKept(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		c := call(background, m, buckets.Request{Route: message(1), Server: "example.com"})
		c.update(limited("messages", 5, 4, time.Second))
		require.Len(t, m.Status(5).Edges, 2)
		before := m.Stats()
		wait(3 * time.Hour)
		require.Len(t, m.Status(5).Edges, 1)
		after := m.Stats()
		assert.EqualValues(t, 1, after.Granted)
		assert.Equal(t, before.Responses, after.Responses)
	})
}

func TestFloodOfUnknownEndpointsIsBounded(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for n := range 5000 {
			route, err := routes.Match("GET", fmt.Sprintf("/made-up-%d/%d/more-%d/and-%d", n, n, n, n))
			require.NoError(t, err)
			sendNow(t, m, route, bot, plain(404))
		}
		assert.LessOrEqual(t, m.Stats().Routes, 10)
		assert.LessOrEqual(t, m.Stats().Buckets, 20)
	})
}

package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	ms = time.Millisecond
	// In these tests, buckets with the period latePeriod open lateBy later than their responses say.
	lateBy, latePeriod = 300 * ms, 5 * time.Second
	// roundings is the tolerance for rounded times.
	roundings = 10 * ms
)

// oneLeft is a success in a bucket of one request.
var oneLeft = limited("messages", 1, 0, latePeriod)

// notYet returns the 429 of a bucket that has not opened yet.
func notYet(limit int, rest time.Duration) ratelimits.Response {
	return usedUp("messages", limit, rest)
}

// showLate shows the manager that a bucket of one request opens late. A request at the announced time gets a 429. The
// request is sent again when lateBy has passed since that time, and is accepted.
func showLate(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute) {
	t.Helper()
	discover(t, m, route, oneLeft)
	c := ask(m, route)
	wait(latePeriod + roundings)
	require.True(t, c.granted(), "nothing has shown yet that the bucket is late")
	c.update(notYet(1, lateBy-roundings))
	c.again(m)
	wait(lateBy - roundings - ms)
	require.False(t, c.done())
	wait(roundings)
	require.True(t, c.granted(), "the hold is as long as the 429 said")
	c.update(oneLeft)
}

// opensAfter sends a request to a bucket of one request. It requires that the manager sends the next request when
// exactly the given time has passed.
func opensAfter(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, after time.Duration) {
	t.Helper()
	discover(t, m, route, oneLeft)
	c := ask(m, route)
	wait(after - ms)
	require.False(t, c.done(), "too early")
	wait(roundings)
	require.True(t, c.granted(), "too late")
	c.update(oneLeft)
	wait(2 * latePeriod)
}

func TestLatenessIsExpectedOfOtherBuckets(t *testing.T) {
	t.Parallel()
	type manager = *buckets.RESTBucketManager
	for name, then := range map[string]func(*testing.T, manager) (manager, routes.CompiledRoute){
		"of the same hash": func(_ *testing.T, m manager) (manager, routes.CompiledRoute) {
			return m, message(2)
		},
		"after eviction": func(t *testing.T, m manager) (manager, routes.CompiledRoute) {
			wait(time.Minute)
			for b := range m.Buckets() {
				require.NotEqual(t, "messages", b.Hash)
			}
			return m, message(1)
		},
		"after a restart": func(t *testing.T, m manager) (manager, routes.CompiledRoute) {
			return successor(t, stateOf(t, m, true)), message(1)
		},
		"of the same hash, after a restart": func(t *testing.T, m manager) (manager, routes.CompiledRoute) {
			return successor(t, stateOf(t, m, true)), message(2)
		},
		"after a crash": func(t *testing.T, m manager) (manager, routes.CompiledRoute) {
			return successor(t, stateOf(t, m, false)), message(1)
		},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			showLate(t, m, message(1))
			m, route := then(t, m)
			wait(2 * latePeriod)
			for range 3 {
				opensAfter(t, m, route, latePeriod+lateBy)
			}
		})
	}
}

func TestPunctualityIsExpectedOfOtherBuckets(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discoverPunctual(t, m, message(1), limited("messages", 5, 0, time.Second))
		for channel := range 2 {
			discover(t, m, message(2+channel), limited("messages", 5, 0, time.Second))
			all := asks(m, message(2+channel), 5)
			wait(time.Second + roundings)
			assert.Equal(t, 5, granted(t, all), "five requests leave together")
			for i, c := range all {
				c.update(limited("messages", 5, 4-i, time.Second))
			}
			m = successor(t, stateOf(t, m, true))
		}
	})
}

// Responses with one hash have shown that its buckets open late. This lateness must not delay the buckets of another
// hash.
func TestLatenessIsNotExpectedOfAnotherHash(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		showLate(t, m, message(1))
		discover(t, m, list(1), limited("others", 1, 0, latePeriod))
		c := ask(m, list(1))
		wait(latePeriod + roundings)
		assert.True(t, c.granted())
	})
}

// The server opens each second of the global limit 200 ms late. When 429s have shown this, each second's requests must
// be sent 200 ms later. A manager that restores the state must do the same.
func TestSecondsOfTheGlobalLimitMayOpenLate(t *testing.T) {
	t.Parallel()
	const late = 200 * ms
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(4))
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		second := func(m *buckets.RESTBucketManager) (next []*caller) {
			t.Helper()
			all := asks(m, message(1), 6)
			require.Equal(t, 4, granted(t, all))
			updateAll(all[:4], plain(200))
			require.Equal(t, 4, granted(t, all))
			return all[4:]
		}
		next := second(m)
		wait(time.Second + roundings)
		require.Equal(t, 2, granted(t, next))
		for _, c := range next {
			c.update(refused(ratelimits.ClassGlobal, late-roundings))
			c.again(m)
		}
		wait(late - roundings - ms)
		require.Zero(t, granted(t, next))
		wait(roundings)
		for i, c := range next {
			require.Equal(t, i+1, granted(t, next), "one request goes first, as after each 429")
			c.update(plain(200))
		}
		for restarts := range 2 {
			wait(5 * time.Second)
			next = second(m)
			wait(time.Second + late - ms)
			require.Zero(t, granted(t, next), "too early")
			wait(2 * roundings) // including the round trip of the 429
			require.Equal(t, 2, granted(t, next))
			updateAll(next, plain(200))
			drained(t, m)
			if restarts == 0 {
				m = successor(t, stateOf(t, m, true), buckets.WithGlobalLimit(4))
			}
		}
	})
}

// One request tests whether each one-second window of the global limit opens on time again. That request may be a long
// upload, so the others must wait for its outcome only until the window is certainly open.
func TestOthersDoNotWaitLongForTheOneThatTriesTheSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(4))
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		all := asks(m, message(1), 5)
		require.Equal(t, 4, granted(t, all))
		updateAll(all[:4], plain(200))
		wait(time.Second + roundings)
		require.Equal(t, 5, granted(t, all))
		all[4].update(refused(ratelimits.ClassGlobal, 190*ms))
		wait(3 * time.Minute) // after that, one request tries whether the next second opens on time
		discover(t, m, message(1), plain(200))
		wait(5 * time.Second)
		all = asks(m, message(1), 8)
		require.Equal(t, 4, granted(t, all))
		updateAll(all[:4], plain(200))
		wait(time.Second + roundings)
		require.Equal(t, 5, granted(t, all), "one request tries whether the second is open")
		wait(900 * ms)
		require.Equal(t, 5, granted(t, all), "the second of the global limit may not be open yet")
		wait(100 * ms)
		early := granted(t, all)
		wait(12 * time.Second)
		late := granted(t, all)
		wait(3 * time.Second)
		assert.Equal(t, 8, early, "granted after a second; %d after 13 s, %d after 16 s", late, granted(t, all))
	})
}

package buckets_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// change returns a request that changes a channel and has the given fields in its body.
func change(channel string, fields ...string) buckets.Request {
	return buckets.Request{
		Route: compile(routes.UpdateChannel, channel), Authorization: bot, Fields: func() []string { return fields },
	}
}

var background = context.Background()

// renamed is the 429 after too many changes of the name. The bucket itself has room.
var renamed = inBucket(refused(ratelimits.ClassSubLimit, 10*time.Minute), "channel", 100, 80, 15*time.Second)

// channelOK is a success in a bucket with room.
var channelOK = limited("channel", 100, 90, 15*time.Second)

// A 429 of a sub-limit must hold only requests with the same method, path and fields.
func TestHiddenLimitHoldsOneKindOfBodyOnly(t *testing.T) {
	t.Parallel()
	name := change("1", "name")
	reaction := func(r routes.Route) buckets.Request { return *request(compile(r, "1", "2", "x")) }
	for what, c := range map[string]struct {
		refused, other buckets.Request
		passes         bool
	}{
		"the same fields":                  {name, change("1", "name"), false},
		"the same fields in another order": {change("1", "name", "topic"), change("1", "topic", "name"), false},
		"other fields":                     {name, change("1", "topic"), true},
		"no fields":                        {name, change("1"), true},
		"more fields":                      {name, change("1", "name", "topic"), true},
		"fields that look alike if joined": {change("1", "a", "bc"), change("1", "ab", "c"), true},
		"unknown fields":                   {name, *request(compile(routes.UpdateChannel, "1")), true},
		"another channel":                  {name, change("2", "name"), true},
		"another method": {
			reaction(routes.AddMyMessageReaction), reaction(routes.DeleteMyMessageReaction), true,
		},
	} {
		subtest(t, what, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, c.refused.Route, channelOK)
			discover(t, m, c.other.Route, channelOK)
			call(background, m, c.refused).update(renamed)
			other := call(background, m, c.other)
			assert.Equal(t, c.passes, other.granted())
			wait(10*time.Minute + time.Second)
			require.True(t, other.granted(), "the hold is over")
			if _, because := predict(t, m, &c.other); !c.passes {
				assert.Equal(t, buckets.WaitsForSubLimit, because, "one request of the sub-limit is in flight")
			}
		})
	}
}

// Requests wait in a bucket when a 429 shows a sub-limit. The requests to which the sub-limit applies must let the
// others pass.
func TestQueuedRequestsOfTheSameKindStepAside(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, compile(routes.UpdateChannel, "1"), limited("channel", 2, 1, 15*time.Second))
		first := call(background, m, change("1", "name"))
		names := []*caller{call(background, m, change("1", "name")), call(background, m, change("1", "name"))}
		topics := []*caller{call(background, m, change("1", "topic")), call(background, m, change("1", "topic"))}
		require.Zero(t, granted(t, append(names, topics...)))
		first.update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "channel", 2, 1, 15*time.Second))
		first.again(m)
		assert.Equal(t, 5, m.Stats().Waiting)

		wait(16 * time.Second)
		assert.Equal(t, 2, granted(t, topics), "requests with other fields pass")
		assert.Zero(t, granted(t, names))
		assert.False(t, first.done())
		updateAll(topics, limited("channel", 2, 1, 15*time.Second))

		wait(45 * time.Second)
		for _, c := range append([]*caller{first}, names...) {
			require.True(t, c.granted(), "requests leave one at a time in order, the refused one first")
			require.Equal(t, 1, m.Stats().InFlight)
			wait(patience - time.Second)
			c.update(limited("channel", 2, 1, 5*time.Second))
		}
	})
}

// A new sub-limit is found while all known sub-limits have longer holds. Requests of the new sub-limit must leave when
// its own hold ends.
func TestHoldOfAHiddenLimitDoesNotLengthenThatOfAnother(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		call(background, m, change("1", "name")).update(renamed)
		require.True(t, call(background, m, change("1")).granted(), "the manager has checked all sub-limits")
		topic := call(background, m, change("1", "topic"))
		topic.update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Second), "channel", 100, 80, 15*time.Second))
		topic.again(m)
		wait(11 * time.Second)
		assert.True(t, topic.granted())
	})
}

func TestHiddenLimitIsForgottenAfterItsHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithEviction(0, 0))
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		call(background, m, change("1", "name")).update(renamed)
		wait(5 * time.Minute)
		assert.NotZero(t, snapshot(t, m, "channel").Limit, "the bucket is kept as long as its sub-limit is held")
		wait(5*time.Minute + time.Second)
		var all []*caller
		for range 3 {
			all = append(all, call(background, m, change("1", "name")))
		}
		assert.Equal(t, 3, granted(t, all), "requests leave together, as before the 429")
		updateAll(all, channelOK)
		wait(time.Minute)
		assert.Zero(t, m.Stats().Buckets)
	})
}

// The Fields function must be called only when the fields matter. No lock may be held during the call, because the
// function may call the manager.
func TestFieldsAreLookedAtOnlyWhenTheyMayMatter(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		asked := 0
		request := change("1")
		request.Fields = func() []string {
			asked++
			assert.NotZero(t, m.Stats().Granted)
			for b := range m.Buckets() { // would block for ever if the server's lock were held
				assert.NotEmpty(t, b.Hash)
			}
			return []string{"name"}
		}
		discover(t, m, request.Route, channelOK)
		call(background, m, request).update(channelOK)
		assert.Zero(t, asked, "the request did not wait and got no 429")

		first, second := call(background, m, request), call(background, m, request)
		first.update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Second), "channel", 100, 80, 15*time.Second))
		first.again(m)
		second.update(channelOK)
		assert.LessOrEqual(t, asked, 2, "Fields is called at most twice for one request")
		third := call(background, m, request)
		wait(11 * time.Second)
		answer(t, first, channelOK)
		answer(t, third, channelOK)
		assert.LessOrEqual(t, asked, 4)
	})
}

// comesBack sends a request again after each of the responses. Each time, the request must be granted within a minute.
func (c *caller) comesBack(t *testing.T, m *buckets.RESTBucketManager, responses ...ratelimits.Response) {
	t.Helper()
	for _, r := range responses {
		c.update(r)
		c.again(m)
		wait(time.Minute)
		require.True(t, c.granted())
	}
}

// isHeldLonger ends a request with a 429 that is at least the ninth one in a row, and sends the request again. It
// requires that the hold is longer than before.
func (c *caller) isHeldLonger(t *testing.T, m *buckets.RESTBucketManager, refusal ratelimits.Response) {
	t.Helper()
	c.update(refusal)
	c.again(m)
	wait(10 * time.Second)
	assert.False(t, c.done(), "the hold of the ninth consecutive 429 is longer")
	wait(time.Minute)
	require.True(t, c.granted())
}

// The backoff for consecutive 429s of a sub-limit must go on when its route moves to another bucket.
func TestRefusalsInARowMoveWithTheRoute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		again := func(hash string) ratelimits.Response {
			return inBucket(refused(ratelimits.ClassSubLimit, time.Millisecond), hash, 100, 80, 15*time.Second)
		}
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		name := call(background, m, change("1", "name"))
		name.comesBack(t, m, slices.Repeat([]ratelimits.Response{again("channel")}, 8)...)
		discover(t, m, compile(routes.UpdateChannel, "1"), limited("renamed bucket", 100, 99, 15*time.Second))
		name.isHeldLonger(t, m, again("renamed bucket"))
	})
}

func TestThoseBehindASubLimitAreJudgedAgainWhenItsHoldIsExtended(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, change("1").Route, channelOK)
		inFlight := call(background, m, change("1", "name"))
		call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute),
			"channel", 100, 80, 15*time.Second))
		short := call(buckets.ContextWithMaxWait(background, 2*time.Minute), m, change("1", "name"))
		long := call(background, m, change("1", "name"))
		require.Equal(t, 2, m.Stats().Waiting)
		inFlight.update(renamed)
		err := tooLong(t, short)
		assert.Equal(t, ratelimits.ClassSubLimit, err.Class)
		assert.Equal(t, 10*time.Minute, err.Wait.Round(time.Second))
		assert.False(t, long.done())
		wait(11 * time.Minute)
		require.True(t, long.granted())
	})
}

var renamedForASecond = inBucket(refused(ratelimits.ClassSubLimit, time.Second), "channel", 100, 80, 15*time.Second)

// A lost or failed request shows nothing about a sub-limit, so it must not end the series of consecutive 429s.
func TestRefusalsOfAHiddenLimitWithFailuresBetweenThemAreInARow(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]ratelimits.Response{"lost": {}, "server error": plain(502)} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, change("1").Route, channelOK)
			c := call(background, m, change("1", "name"))
			c.comesBack(t, m, slices.Repeat([]ratelimits.Response{renamedForASecond, failure}, 8)...)
			c.isHeldLonger(t, m, renamedForASecond)
		})
	}
}

// A success of the sub-limit ends the series of consecutive 429s, so the hold must not become longer.
func TestRefusalsOfAHiddenLimitWithSuccessesBetweenThemAreNotInARow(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, change("1").Route, channelOK)
		c := call(background, m, change("1", "name"))
		for range 12 {
			c.update(renamedForASecond)
			c.again(m)
			next := call(background, m, change("1", "name"))
			wait(2 * time.Second)
			require.False(t, next.done())
			answer(t, c, channelOK)
			require.True(t, next.granted())
			c = next
		}
		c.update(renamedForASecond)
		c.again(m)
		wait(2 * time.Second)
		require.True(t, c.granted())
	})
}

// After the hold of a sub-limit, the first request of a bucket waits for the global limit. This request must keep its
// place in the line of the global limit when another request of the sub-limit is cancelled.
func TestSubLimitKeepsItsPlaceInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1))
		call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, 2*time.Second),
			"channel", 100, 90, 10*time.Second))
		wait(time.Second)
		discover(t, m, message(2), limited("messages", 100, 90, 10*time.Second))
		wait(time.Second)
		sub := call(background, m, change("1", "name"))
		require.False(t, sub.done(), "the hold has not ended")
		taken := ask(m, message(2))
		require.True(t, taken.granted(), "the slot is taken")
		taken.update(limited("messages", 100, 89, 10*time.Second))
		wait(100 * time.Millisecond)
		require.False(t, sub.done(), "the request waits for the global limit now")
		other := ask(m, message(2))
		require.False(t, other.done())
		call(background, m, change("1", "name")).cancel()
		wait(950 * time.Millisecond)
		assert.True(t, sub.granted(), "the first request leaves first")
		require.False(t, other.done())
		sub.update(limited("channel", 100, 89, 10*time.Second))
		wait(time.Second)
		assert.True(t, other.granted())
	})
}

// Requests wait for a held sub-limit, or for the request that goes first after the hold. They do not need the global
// limit yet, so predictions for other requests must not count them.
func TestThoseWhomASubLimitHoldsAreBeforeNobodyInLine(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{"held": time.Minute, "one in flight": time.Second} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(1))
			discover(t, m, message(1), limited("messages", 100, 90, 10*time.Second))
			wait(time.Second)
			refusal := refused(ratelimits.ClassSubLimit, hold)
			call(background, m, change("1", "name")).update(inBucket(refusal, "channel", 100, 90, 10*time.Second))
			first, second := call(background, m, change("1", "name")), call(background, m, change("1", "name"))
			wait(4 * time.Second)
			require.True(t, first.granted() == (name == "one in flight") && !second.done())
			call(background, m, change("1", "topic")).update(channelOK)
			inLine := []*caller{call(background, m, change("1", "topic")), ask(m, message(1)), ask(m, message(1))}
			require.Zero(t, granted(t, inLine))
			err := tooLong(t, patient(m, 3*time.Second))
			assert.Equal(t, 4*time.Second, err.Wait.Round(100*time.Millisecond),
				"a second for each request that counts")
		})
	}
}

// A request of a sub-limit is the first in its bucket. The prediction for it must not count the requests behind it.
func TestFirstOfASubLimitIsNotRefusedForThoseBehindIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, compile(routes.UpdateChannel, "1"), limited("channel", 1, 0, time.Minute))
		wait(2 * time.Minute)
		first := call(buckets.ContextWithMaxWait(background, 90*time.Second), m, change("1", "name"))
		answer(t, first, inBucket(refused(ratelimits.ClassSubLimit, 10*time.Second), "channel", 1, 0, time.Minute))
		first.again(m)
		require.False(t, first.done())
		for range 5 {
			require.False(t, call(background, m, change("1", "topic")).done())
		}
		m.Throttle(time.Second)
		synctest.Wait()
		require.NoError(t, first.failed(), "the throttle does not make the wait too long")
		wait(time.Minute + time.Second)
		assert.True(t, first.granted())
	})
}

// A request with priority goes first among those that wait for a sub-limit. The prediction for it must be that for the
// first request in the queue.
func TestPriorityCountsForThePredictedWaitOfASubLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, compile(routes.UpdateChannel, "1"), limited("channel", 2, 1, time.Minute))
		call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Second),
			"channel", 1, 0, time.Minute))
		wait(5 * time.Second)
		for range 5 {
			require.False(t, call(background, m, change("1", "name")).done())
		}
		urgent := call(buckets.ContextWithPriority(buckets.ContextWithMaxWait(background, 90*time.Second)), m,
			change("1", "name"))
		require.NoError(t, urgent.failed(), "the request goes first")
		wait(time.Minute)
		assert.True(t, urgent.granted())
	})
}

package buckets_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// impatient is an ordered ask that does not wait for longer than half a minute.
func impatient(m *buckets.RESTBucketManager, request buckets.Request) *caller {
	return call(buckets.ContextWithMaxWait(buckets.ContextWithOrdered(background), 30*time.Second), m, request)
}

// What refuses the first in a queue lets the next one go at its time, also when the first waited for something that
// only it had to wait for.
func TestWhoeverRefusesTheFirstWakesTheNext(t *testing.T) {
	t.Parallel()
	mine := buckets.Request{Route: message(1), Authorization: bot}
	for _, c := range []struct {
		name   string
		refuse func(t *testing.T, m *buckets.RESTBucketManager, inFlight *caller)
	}{
		{"throttle", func(_ *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			m.Throttle(time.Minute)
			wait(0)
		}},
		{"shared 429 under another credential", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			other := as(m, "Bot two", message(1))
			answer(t, other, inBucket(refused(ratelimits.ClassShared, time.Minute), "messages", 100, 80, time.Minute))
		}},
		{"move to a bucket that is held", func(t *testing.T, m *buckets.RESTBucketManager, inFlight *caller) {
			discover(t, m, list(1), inBucket(refused(ratelimits.ClassShared, time.Minute), "held", 100, 80, time.Minute))
			inFlight.update(limited("held", 100, 80, time.Minute))
		}},
		{"edge", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			discover(t, m, list(2), refused(ratelimits.ClassEdge, time.Minute))
		}},
		{"global 429", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			discover(t, m, list(2), refused(ratelimits.ClassGlobal, time.Minute))
		}},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, message(1), roomy)
			discover(t, m, list(2), limited("lists", 100, 90, time.Minute))
			inFlight, before := ask(m, message(1)), call(buckets.ContextWithOrdered(background), m, mine)
			require.True(t, inFlight.granted() && before.granted())
			first, next := impatient(m, mine), ask(m, message(1))
			require.False(t, first.done() || next.done(), "they wait for the ordered one in flight")

			c.refuse(t, m, inFlight)
			tooLong(t, first)
			wait(time.Minute + 5*time.Second)
			assert.True(t, next.granted(), "the ordered one is in flight still, but the next one does not wait for it")
		})
	}
}

// Those whom a hidden limit holds do not stand in the way of others.
func TestWhoIsHeldByAHiddenLimitIsAheadOfNobodyElse(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]buckets.Option{"window": nil, "global limit": {buckets.WithGlobalLimit(2)}} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, append(options, buckets.WithMaxRateLimit(24*time.Hour))...)
			discover(t, m, change("1").Route, channelOK)
			wait(16 * time.Second)
			call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Minute), "channel", 5, 0, 5*time.Second))
			var names []*caller
			for range 100 {
				names = append(names, call(background, m, change("1", "name")))
			}
			topic := call(buckets.ContextWithMaxWait(background, 10*time.Second), m, change("1", "topic"))
			require.False(t, topic.done(), "%v", topic.failed())
			wait(6 * time.Second)
			require.True(t, topic.granted())
		})
	}
}

// Who leaves a queue leaves the line at the global limit, too.
func TestThoseWhoHaveGivenUpAreAheadOfNobodyAtTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1), buckets.WithMaxRateLimit(time.Hour))
		for channel := range 41 {
			discover(t, m, message(channel+1), limited("messages", 100, 99, time.Hour))
			wait(2 * time.Second)
		}
		ask(m, message(41)).update(roomy) // the slot
		var all []*caller
		for channel := range 40 {
			all = append(all, ask(m, message(channel+1)), ask(m, message(channel+1)))
		}
		for _, c := range all {
			require.False(t, c.done())
			c.cancel()
		}
		wait(0)
		newcomer := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, buckets.Request{Route: message(41), Authorization: bot})
		require.NoError(t, newcomer.failed())
		wait(2 * time.Second)
		answer(t, newcomer, roomy)
		wait(2 * time.Second)
		again := ask(m, message(1))
		require.True(t, again.granted(), "the buckets that had left can be used as before")
	})
}

// As many buckets wait in line as leave it and come back: order and count stay right.
func TestLineAtTheGlobalLimitIsRightWhoeverLeavesIt(t *testing.T) {
	t.Parallel()
	for _, leaves := range [][]int{{0}, {2}, {4}, {1, 2, 3}, {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {0, 4}} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(1), buckets.WithMaxRateLimit(time.Hour))
			for channel := range 5 {
				discover(t, m, message(channel+1), limited("messages", 100, 99, time.Hour))
				wait(2 * time.Second)
			}
			ask(m, message(1)).update(roomy)
			waiting := make(map[int]*caller)
			var order []int
			for channel := range 5 {
				waiting[channel] = ask(m, message(channel+1))
				order = append(order, channel)
			}
			for _, channel := range leaves {
				waiting[channel].cancel()
				wait(0)
				waiting[channel] = ask(m, message(channel+1)) // behind the others now
				order = append(slices.DeleteFunc(order, func(n int) bool { return n == channel }), channel)
			}
			for _, channel := range order {
				wait(time.Second)
				for other, c := range waiting {
					require.Equal(t, other == channel, c.granted(), "channel %d, expected %d of %v", other, channel, order)
				}
				waiting[channel].update(roomy)
				delete(waiting, channel)
			}
		})
	}
}

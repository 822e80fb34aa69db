package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

func urgent(m *buckets.RESTBucketManager) *caller {
	return call(buckets.ContextWithPriority(context.Background()), m, buckets.Request{Route: message(1), Authorization: bot})
}

// full is a bucket with a limit of one that was just used up, and comes back each minute.
func full(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	m := started(t, options...)
	discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
	return m
}

// next lets the minute pass and ends the one who went, who has to be the given one.
func next(t *testing.T, want *caller) {
	t.Helper()
	wait(time.Minute + 2*time.Millisecond)
	require.True(t, want.granted(), "another one went")
	want.update(limited("messages", 1, 0, time.Minute))
}

func TestPriorityGoesAheadOfWhatCameShortlyBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		wait(10 * time.Second) // an age ago, as far as head starts go
		background := asks(m, message(1), 2)
		wait(3*time.Second - time.Millisecond)
		first, second := urgent(m), urgent(m)
		last := ask(m, message(1))
		next(t, first)
		next(t, second)
		next(t, background[0])
		next(t, background[1])
		next(t, last)
	})
}

func TestPriorityDoesNotOvertakeWhatHasWaitedLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		background := ask(m, message(1))
		wait(3*time.Second + time.Millisecond)
		first := urgent(m)
		next(t, background)
		next(t, first)
	})
}

// What comes without end does not starve the others: those that come later than the head start are behind them.
func TestPriorityStarvesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		wait(10 * time.Second)
		background := ask(m, message(1))
		var all []*caller
		for range 20 {
			all = append(all, urgent(m))
			wait(time.Second)
		}
		ahead := 0
		for range all {
			if background.done() {
				break
			}
			wait(time.Minute + 2*time.Millisecond)
			for _, c := range all {
				if c.granted() && !c.ended {
					ahead++
					c.ended = true
					c.update(limited("messages", 1, 0, time.Minute))
				}
			}
		}
		assert.True(t, background.granted())
		assert.LessOrEqual(t, ahead, 5, "those of three seconds")
	})
}

func TestPriorityCountsForThePredictedWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t, buckets.WithMaxRateLimit(90*time.Second))
		wait(10 * time.Second)
		ask(m, message(1))
		tooLong(t, ask(m, message(1)))
		first := urgent(m)
		assert.NoError(t, first.failed(), "it goes first, after 50 s")
		next(t, first)
	})
}

// Where processes share the bucket, somebody who overtakes leaves on what was granted to another one, who then has the
// place of the one who left.
func TestPriorityChangesPlacesWithTheOneItOvertakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 1, a, b)
		a.Throttle(2 * time.Second)
		overtaken, first := ask(a, message(1)), urgent(a) // granted by the others, held by the throttle
		wait(2 * time.Second)
		require.True(t, first.granted() && !overtaken.done())
		overtaken.cancel()
		theirs := ask(b, message(1))
		require.False(t, theirs.done(), "there is one in flight")
		first.update(limited("messages", 1, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.True(t, theirs.granted())
		theirs.lease.Release()
		drained(t, a)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		h.empty()
	})
}

// A request with priority has its place also if it did not have to wait for it at first.
func TestPriorityCountsWhenARequestComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 3, 2, time.Minute))
		wait(10 * time.Second)
		background := ask(m, message(1))
		wait(time.Second)
		first := urgent(m)
		require.True(t, background.granted() && first.granted())
		for _, c := range []*caller{background, first} {
			c.update(inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 1, 0, time.Minute))
			c.again(m)
		}
		next(t, first)
		next(t, background)
	})
}

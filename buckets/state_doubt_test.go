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

// What a process may have sent before it was killed counts for a period, also if the next one ends within that time.
func TestDoubtAfterAKillOutlastsTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, false))
		wait(10 * time.Second)
		m = successor(t, stateOf(t, m, true), buckets.WithMaxRateLimit(time.Hour))
		c := ask(m, message(2))
		require.False(t, c.done(), "the first process may have used it up")
		wait(50*time.Second + 10*time.Millisecond)
		require.True(t, c.granted())
	})
}

func TestLiftHoldsEndsTheDoubtAfterAKill(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
		m = successor(t, stateOf(t, m, false))
		wait(3 * time.Second)
		m.LiftHolds()
		discover(t, m, message(2), limited("messages", 5, 4, time.Minute))
	})
}

// A route without limits can have a hidden one on what a body contains.
func TestSubLimitOfARouteWithoutLimitsLastsIntoTheNextProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		for range 2 {
			c := call(context.Background(), m, edit("1"))
			require.True(t, c.granted())
			c.update(plain(200))
		}
		c := call(context.Background(), m, rename("1"))
		require.True(t, c.granted())
		c.update(refused(ratelimits.ClassSubLimit, time.Minute))
		m = successor(t, stateOf(t, m, true))
		named, other := call(context.Background(), m, rename("1")), call(context.Background(), m, edit("1"))
		assert.False(t, named.done())
		require.True(t, other.granted())
		other.update(plain(200))
		wait(time.Minute + 10*time.Millisecond)
		require.True(t, named.granted())
	})
}

// A limit that makes little sense must not spoil what is left to the next process.
func TestHugeLimitLeavesAState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 1_000_000_000, 999_999_999, time.Minute))
		refusal := refused(ratelimits.ClassShared, time.Second)
		ask(m, list(1)).update(inBucket(refusal, "list", 1_000_000_000, 999_999_999, 7*24*time.Hour))
		discover(t, m, message(1), limited("messages", 1_000_000_000, 999_999_999, time.Minute))
		m = successor(t, stateOf(t, m, true))
		discover(t, m, message(1), roomy)
	})
}

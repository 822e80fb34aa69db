package buckets_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// countingClock counts how often its timers have fired.
type countingClock struct {
	clockwork.Clock
	fired atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.fired.Add(1)
		f()
	})
}

// Only their end can tell how long requests in flight count for a declared limit, so nobody looks until then.
func TestWhoWaitsForAnOutcomeUnderADeclaredLimitPollsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &countingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock), buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 2, 10*time.Second))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		first := ask(m, message(1))
		require.True(t, first.granted())
		second := ask(m, message(1))
		wait(time.Millisecond)
		third := ask(m, message(2))
		wait(11 * time.Second)
		require.True(t, second.granted())
		fired := clock.fired.Load()
		wait(10 * time.Second)
		assert.LessOrEqual(t, clock.fired.Load(), fired+2)
		require.False(t, third.granted())
		first.update(ample)
		second.update(ample)
		wait(11 * time.Second)
		require.True(t, third.granted())
	})
}

// What others have sent, of which only the response is told, counts for declared limits, too.
func TestDeclaredLimitCountsWhatOthersSend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 2, time.Minute))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		m.UpdateRateLimits(message(2), bot, inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 100, 0, time.Second))
		m.UpdateRateLimits(message(1), bot, ample)
		c := ask(m, message(1))
		require.False(t, c.done(), "two have been sent")
		wait(61 * time.Second)
		require.True(t, c.granted())
	})
}

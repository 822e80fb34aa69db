package buckets_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// jumpingClock is a clock whose wall time can be set, as by an administrator or a time server. As with the real clock,
// such a change has no effect on elapsed times (Since).
type jumpingClock struct {
	clockwork.Clock
	jump atomic.Int64
}

func (c *jumpingClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.jump.Load())) }

func (c *jumpingClock) Since(t time.Time) time.Duration { return c.Clock.Since(t) }

func TestJumpsOfTheWallClockChangeNoWait(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 10 * time.Second, -10 * time.Second} {
		subtest(t, jump.String(), func(t *testing.T) {
			clock := &jumpingClock{Clock: clockwork.NewRealClock()}
			m := started(t, buckets.WithClock(clock))
			send := func(remaining int) {
				sendNow(t, m, message(1), bot, limited("b", 2, remaining, 5*time.Second))
			}
			send(1)
			send(0)
			start := time.Now()
			time.AfterFunc(time.Second, func() { clock.jump.Store(int64(jump)) })
			send(1)
			assert.InDelta(t, 5*time.Second, time.Since(start), float64(10*time.Millisecond))
			m.Throttle(3 * time.Second)
			clock.jump.Store(0)
			start = time.Now()
			send(0)
			assert.Equal(t, 3*time.Second, time.Since(start).Round(10*time.Millisecond))
		})
	}
}

// According to the manager's clock, the deadline of a context has passed; according to the real clock, it has not. A
// request that has to wait must be rejected at once.
func TestDeadlineThatHasPassedByTheManagersClockOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &jumpingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock))
		discover(t, m, message(1), limited("messages", 2, 1, time.Minute))
		clock.jump.Store(int64(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lease, err := m.Acquire(ctx, message(1), bot)
		require.NoError(t, err)
		defer lease.Release()
		_, err = m.Acquire(ctx, message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.True(t, tooLong.Deadline)
		assert.Zero(t, tooLong.Max)
	})
}

// The manager's clock is 10 s behind when a response arrives. The bucket must not treat the reset in the response as
// already past.
func TestTimeNeverRunsBackwardsInABucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &steppingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock))
		discover(t, m, message(1), limited("messages", 2, 1, 5*time.Second))
		wait(6 * time.Second)
		second := ask(m, message(1))
		require.True(t, second.granted())
		clock.step.Store(int64(-10 * time.Second))
		second.update(limited("messages", 2, 0, 5*time.Second))
		clock.step.Store(0)
		third := ask(m, message(1))
		wait(4 * time.Second)
		require.False(t, third.granted(), "the window has not ended")
		wait(2 * time.Second)
		require.True(t, third.granted())
	})
}

// steppingClock is a clock without monotonic time: when the clock is set, even elapsed times change.
type steppingClock struct {
	clockwork.Clock
	step atomic.Int64
}

func (c *steppingClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.step.Load())) }

func (c *steppingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

package buckets_test

import (
	"context"
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

func TestManagerIsAliveBetweenStartAndClose(t *testing.T) {
	t.Parallel()
	m := buckets.NewRESTBucketManager()
	assert.False(t, m.IsAlive())
	_, err := m.Acquire(context.Background(), message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrNotStarted)

	require.NoError(t, m.Start())
	assert.True(t, m.IsAlive())
	assert.ErrorContains(t, m.Start(), "started already")
	assert.True(t, m.IsAlive(), "a second Start changes nothing")

	require.NoError(t, m.Close())
	assert.False(t, m.IsAlive())
	_, err = m.Acquire(context.Background(), message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrClosed)
	assert.NoError(t, m.Close(), "closing again does nothing")
}

func TestManagerThatWasNeverStartedCanBeClosed(t *testing.T) {
	t.Parallel()
	m := buckets.NewRESTBucketManager()
	require.NoError(t, m.Close())
	_, err := m.Acquire(context.Background(), message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrClosed)
	require.NoError(t, m.Start(), "and started after that")
	assert.NoError(t, m.Close())
}

func TestMaxRateLimitIsReadBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options []buckets.Option
		want    time.Duration
	}{
		{nil, buckets.DefaultMaxRateLimit},
		{[]buckets.Option{buckets.WithMaxRateLimit(7 * time.Second)}, 7 * time.Second},
		{[]buckets.Option{buckets.WithMaxRateLimit(0)}, 0},
		{[]buckets.Option{buckets.WithMaxRateLimit(-time.Second)}, 0},
	} {
		assert.Equal(t, c.want, buckets.NewRESTBucketManager(c.options...).MaxRateLimit())
	}
}

func TestCloseWithManyBuckets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		var waiting []*caller
		for channel := range 30 {
			discover(t, m, message(1+channel), limited("messages", 1, 0, time.Minute))
			waiting = append(waiting, ask(m, message(1+channel)))
		}
		assert.Equal(t, 31, m.Stats().Buckets, "one for each channel, and the UNKNOWN one")
		assert.Equal(t, 30, m.Stats().Waiting)
		require.NoError(t, m.Close())
		synctest.Wait()
		for _, c := range waiting {
			assert.ErrorIs(t, c.failed(), buckets.ErrClosed)
		}
		assert.Zero(t, m.Stats().Buckets)
		assert.False(t, m.IsAlive())
	})
}

func TestCloseAnswersEveryWaiterAtEveryGate(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		var waiting []*caller
		for range 10 {
			waiting = append(waiting, g.call(m))
		}
		require.Zero(t, granted(t, waiting))
		require.Equal(t, 10, m.Stats().Waiting)
		before := m.Stats().Granted

		require.NoError(t, m.Close())
		synctest.Wait()
		for _, c := range waiting {
			require.True(t, c.done())
			assert.ErrorIs(t, c.failed(), buckets.ErrClosed)
			assert.Zero(t, c.lease)
		}
		open() // leases that are still held end as usual, and nobody is left who could be let go
		wait(time.Hour)
		assert.Equal(t, before, m.Stats().Granted)
		assert.Zero(t, m.Stats().Buckets)
	})
}

func TestCloseLeavesNoTimerBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		m := started(t, buckets.WithClock(clock), buckets.WithGlobalLimit(1))
		timers := func() bool {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			return clock.BlockUntilContext(done, 1) == nil
		}
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		ask(m, message(1)) // waits for the window
		ask(m, list(1))    // waits for the global limit
		clock.Advance(time.Second)
		synctest.Wait()
		m.Throttle(time.Minute)
		require.False(t, ask(m, message(2)).done(), "stands in line")
		require.True(t, timers())
		require.NoError(t, m.Close())
		synctest.Wait()
		assert.False(t, timers(), "a timer is still set")
	})
}

func TestRestartBeginsWithoutKnowledge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 1, 0, time.Hour))
		discover(t, m, list(1), refused(ratelimits.ClassEdge, time.Hour))
		m.Throttle(time.Hour)
		require.NoError(t, m.Close())
		assert.Zero(t, m.EdgeWait(""))
		require.NoError(t, m.Start())
		assert.True(t, m.IsAlive())

		s := m.Stats()
		assert.Zero(t, s.Buckets+s.Routes+s.Authentications)
		first, second := ask(m, message(1)), ask(m, message(1))
		assert.True(t, first.granted(), "no hold and no window is left over")
		assert.False(t, second.granted(), "the route has to be discovered again")
		first.update(roomy)
		assert.True(t, second.granted())
		second.update(roomy)
		elsewhere := at(m, "example.com", bot)
		require.True(t, elsewhere.granted(), "nor at another server")
	})
}

func TestMistakesOfTheCallerAreErrors(t *testing.T) {
	t.Parallel()
	m := started(t)
	var none context.Context
	_, err := m.Acquire(none, message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrNoContext)
	_, err = m.Acquire(context.Background(), routes.CompiledRoute{}, bot)
	assert.ErrorContains(t, err, "compiled route is empty")
	_, err = m.AcquireRequest(context.Background(), nil)
	assert.ErrorContains(t, err, "compiled route is empty")
	_, err = m.AcquireRequest(context.Background(), &buckets.Request{Authorization: bot})
	assert.ErrorContains(t, err, "compiled route is empty")

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.Acquire(ctx, message(1), bot)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, m.Stats().Granted)

	m.UpdateRateLimits(routes.CompiledRoute{}, bot, roomy)
	assert.Zero(t, m.Stats().Buckets)
}

// The caller's functions are called while the request is neither granted nor in a queue.
func TestCloseDuringACallOfTheCallersEndsTheRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 1, 0, time.Hour))
		c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string {
			assert.NoError(t, m.Close())
			return nil
		}})
		require.ErrorIs(t, c.failed(), buckets.ErrClosed)
	})
}

func TestCloseLeavesNoTimerOfALeaseFromBeforeARestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		m := started(t, buckets.WithClock(clock))
		timers := func() bool {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			return clock.BlockUntilContext(done, 1) == nil
		}
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		old := call(background, m, change("1", "name"))
		require.NoError(t, m.Close())
		require.NoError(t, m.Start())
		old.update(renamed)
		assert.Zero(t, m.Status(1).BucketsTotal)
		require.NoError(t, m.Close())
		synctest.Wait()
		assert.False(t, timers(), "a timer is still set")
	})
}

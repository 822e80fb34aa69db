package buckets_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	_, err := m.Acquire(background, message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrNotStarted)

	require.NoError(t, m.Start())
	assert.True(t, m.IsAlive())
	assert.ErrorContains(t, m.Start(), "started already")
	assert.True(t, m.IsAlive(), "a second Start changes nothing")

	require.NoError(t, m.Close())
	assert.False(t, m.IsAlive())
	_, err = m.Acquire(background, message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrClosed)
	assert.NoError(t, m.Close(), "closing again does nothing")
}

func TestManagerThatWasNeverStartedCanBeClosed(t *testing.T) {
	t.Parallel()
	m := buckets.NewRESTBucketManager()
	require.NoError(t, m.Close())
	_, err := m.Acquire(background, message(1), bot)
	assert.ErrorIs(t, err, buckets.ErrClosed)
	require.NoError(t, m.Start(), "a closed manager can be started")
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
		open() // leases that are still held end as usual; no further request may leave
		wait(time.Hour)
		assert.Equal(t, before, m.Stats().Granted)
		assert.Zero(t, m.Stats().Buckets)
	})
}

// timerSet reports whether a timer of the clock is set.
func timerSet(t *testing.T, clock *clockwork.FakeClock) bool {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	return clock.BlockUntilContext(done, 1) == nil
}

func TestCloseLeavesNoTimerBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := clockwork.NewFakeClock()
		m := started(t, buckets.WithClock(clock), buckets.WithGlobalLimit(1))
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		ask(m, message(1)) // waits for the window
		ask(m, list(1))    // waits for the global limit
		clock.Advance(time.Second)
		synctest.Wait()
		m.Throttle(time.Minute)
		require.False(t, ask(m, message(2)).done(), "the request waits for the global limit")
		require.True(t, timerSet(t, clock))
		require.NoError(t, m.Close())
		synctest.Wait()
		assert.False(t, timerSet(t, clock), "no timer may be set")
	})
}

func TestRestartBeginsWithoutKnowledge(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
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
		require.True(t, at(m, "example.com", bot).granted(), "no hold is left at another server either")
	})
}

// Close is called in a request's Fields function, while the request is neither granted nor in a queue. The request must
// fail with ErrClosed.
func TestCloseDuringACallOfTheCallersEndsTheRequest(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
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
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		old := call(background, m, change("1", "name"))
		require.NoError(t, m.Close())
		require.NoError(t, m.Start())
		old.update(renamed)
		assert.Zero(t, m.Status(1).BucketsTotal)
		require.NoError(t, m.Close())
		synctest.Wait()
		assert.False(t, timerSet(t, clock), "no timer may be set")
	})
}

// shutdown is a call of Shutdown and its result.
type shutdown struct {
	over atomic.Bool
	err  error
	took time.Duration
}

func shutDown(ctx context.Context, m *buckets.RESTBucketManager) *shutdown {
	s := &shutdown{}
	start := time.Now()
	go func() {
		s.err = m.Shutdown(ctx)
		s.took = time.Since(start)
		s.over.Store(true)
	}()
	synctest.Wait()
	return s
}

// succeeded requires that Shutdown has returned without an error.
func (s *shutdown) succeeded(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.True(t, s.over.Load())
	assert.NoError(t, s.err)
}

func TestShutdownLetsEverybodyWhoWaitsFinishAndNobodyElseIn(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		waiting := []*caller{g.call(m), g.call(m)}
		require.Zero(t, granted(t, waiting))
		s := shutDown(background, m)
		assert.False(t, m.IsAlive())
		assert.ErrorContains(t, m.Start(), "started already")

		for _, err := range []error{g.call(m).failed(), ask(m, list(7)).failed()} {
			require.ErrorIs(t, err, buckets.ErrClosed)
			assert.ErrorContains(t, err, "shutting down")
		}
		_, err := m.Acquire(background, message(1), bot)
		assert.ErrorIs(t, err, buckets.ErrClosed)
		_, err = m.TryAcquire(message(1), bot)
		assert.ErrorIs(t, err, buckets.ErrClosed)

		require.False(t, s.over.Load())
		open()
		for _, c := range waiting {
			for round := 0; !c.done(); round++ {
				require.Less(t, round, 100)
				wait(time.Second)
			}
			require.NoError(t, c.err)
			require.False(t, s.over.Load(), "a request is in flight")
			g.end(c)
		}
		wait(2 * time.Second)
		s.succeeded(t)
		_, err = m.Acquire(background, message(1), bot)
		assert.Equal(t, buckets.ErrClosed, err)
	})
}

func TestShutdownWhoseContextEndsCutsOffWhoStillWaits(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		c := g.call(m)
		ctx, cancel := context.WithCancel(background)
		s := shutDown(ctx, m)
		cancel()
		synctest.Wait()
		require.True(t, s.over.Load())
		assert.ErrorIs(t, s.err, context.Canceled)
		assert.ErrorIs(t, c.failed(), buckets.ErrClosed)
		open()
	})
}

func TestShutdownWithNothingToDoReturnsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		over, cancel := context.WithCancel(background)
		cancel()
		m := buckets.NewRESTBucketManager()
		assert.NoError(t, m.Shutdown(over), "the manager is not started")
		_, err := m.Acquire(background, message(1), bot)
		assert.ErrorIs(t, err, buckets.ErrClosed)
		require.NoError(t, m.Start(), "the manager can be started again")
		var none context.Context
		assert.ErrorIs(t, m.Shutdown(none), buckets.ErrNoContext)
		discover(t, m, message(1), roomy)
		s := shutDown(over, m)
		assert.True(t, s.over.Load())
		assert.NoError(t, s.err, "no request was cut off")
		assert.NoError(t, m.Shutdown(over), "the manager is closed")
		require.NoError(t, m.Start())
		discover(t, m, message(1), roomy)
		assert.NoError(t, m.Close())
	})
}

func TestARefusedRequestComesBackToItsPlaceDuringShutdown(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		first, second := ask(m, message(1)), ask(m, message(1))
		s := shutDown(background, m)
		first.update(usedUp("messages", 100, 3*time.Second))
		second.update(usedUp("messages", 100, 3*time.Second))
		wait(500 * time.Millisecond)
		require.False(t, s.over.Load(), "both requests may come back")
		first.again(m)
		second.again(m)
		require.False(t, first.done())
		wait(5 * time.Second)
		answer(t, first, roomy)
		wait(time.Second)
		answer(t, second, roomy)
		s.succeeded(t)
	})
}

// A request that was refused, failed or not sent may come back. Shutdown must wait exactly a second for that.
func TestShutdownWaitsASecondForARequestThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(buckets.Lease){
		"refused": func(l buckets.Lease) { l.Update(refused(ratelimits.ClassUser, time.Minute)) },
		"failed":  func(l buckets.Lease) { l.Update(plain(502)) },
		"lost":    buckets.Lease.Release,
		"unsent":  buckets.Lease.Return,
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			c := ask(m, message(1))
			s := shutDown(background, m)
			end(c.lease)
			wait(900 * time.Millisecond)
			assert.False(t, s.over.Load())
			wait(200 * time.Millisecond)
			s.succeeded(t)
			c.again(m)
			assert.ErrorIs(t, c.failed(), buckets.ErrClosed)
		})
	}
}

func TestShutdownMayBeCalledTwiceAndTogetherWithClose(t *testing.T) {
	t.Parallel()
	type manager = buckets.RESTBucketManager
	for name, c := range map[string]struct {
		end           func(m *manager, cancelFirst, cancelSecond func(), finish func())
		first, second error
	}{
		"finished":         {func(_ *manager, _, _, finish func()) { finish() }, nil, nil},
		"first cancelled":  {func(_ *manager, first, _, _ func()) { first() }, context.Canceled, buckets.ErrClosed},
		"second cancelled": {func(_ *manager, _, second, _ func()) { second() }, buckets.ErrClosed, context.Canceled},
		"closed":           {func(m *manager, _, _, _ func()) { _ = m.Close() }, buckets.ErrClosed, buckets.ErrClosed},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			inFlight := ask(m, message(1))
			one, cancelOne := context.WithCancel(background)
			two, cancelTwo := context.WithCancel(background)
			defer cancelOne()
			defer cancelTwo()
			first, second := shutDown(one, m), shutDown(two, m)
			require.False(t, first.over.Load() || second.over.Load())
			c.end(m, cancelOne, cancelTwo, func() { inFlight.update(roomy) })
			synctest.Wait()
			require.True(t, first.over.Load() && second.over.Load())
			assert.Equal(t, c.first, first.err)
			assert.Equal(t, c.second, second.err)
			require.NoError(t, m.Start(), "the manager can be started again")
			inFlight.lease.Release()
			discover(t, m, message(1), roomy)
		})
	}
}

// Close rejects all waiting requests while Shutdown waits for them. Shutdown must return ErrClosed, although it finds
// no waiting request any more.
func TestShutdownSaysThatCloseHasCutOffThoseWhoWaited(t *testing.T) {
	t.Parallel()
	for range 50 {
		bubble(t, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
			waiting := asks(m, message(1), 3)
			s := shutDown(background, m)
			require.NoError(t, m.Close())
			synctest.Wait()
			require.True(t, s.over.Load())
			assert.Equal(t, buckets.ErrClosed, s.err)
			assert.ErrorIs(t, waiting[0].failed(), buckets.ErrClosed)
		})
	}
}

func TestShutdownEndsWhenThoseWhoWaitGiveUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("messages", 1, 0, 4*time.Minute))
		waiting := asks(m, message(1), 4)
		s := shutDown(background, m)
		for _, c := range waiting {
			synctest.Wait()
			require.False(t, s.over.Load())
			c.cancel()
		}
		s.succeeded(t)
	})
}

// Shutdown must also wait for requests that move to another bucket. Such a request must not be rejected as if it were
// new.
func TestShutdownWaitsForThoseWhoMove(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, message(1))
		other := ask(m, message(2))
		waiting := asks(m, message(1), 2)
		s := shutDown(background, m)
		probe.update(limited("messages", 1, 0, time.Minute))
		answer(t, other, limited("messages", 1, 0, time.Minute))
		for _, c := range waiting {
			require.False(t, c.done())
			require.False(t, s.over.Load())
			wait(time.Minute + time.Second)
			require.True(t, c.granted())
			c.lease.Update(limited("messages", 1, 0, time.Minute))
		}
		s.succeeded(t)
	})
}

func TestShutdownEndsWhenTheBudgetOfInvalidRequestsRefusesTheLast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(2, time.Hour, 0))
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 5)
		s := shutDown(background, m)
		probe.update(inBucket(plain(401), "messages", 9, 8, time.Minute))
		for _, c := range waiting {
			if c.granted() {
				c.update(plain(401))
			}
		}
		s.succeeded(t)
	})
}

// Requests arrive during Shutdown. All requests that were accepted must have been answered when Shutdown returns nil.
func TestShutdownUnderLoadLosesNobody(t *testing.T) {
	t.Parallel()
	for range 20 {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(200))
			var all sync.WaitGroup
			var inFlight, refusedBefore, sent atomic.Int64
			var closing atomic.Bool
			for i := range 100 {
				all.Go(func() {
					time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
					r := *request(message(i % 7))
					for refusals := 0; ; refusals++ {
						lease, err := m.AcquireRequest(background, &r)
						if err != nil {
							assert.ErrorIs(t, err, buckets.ErrClosed)
							assert.Zero(t, refusals, "the request had been accepted before")
							if !closing.Load() {
								refusedBefore.Add(1)
							}
							return
						}
						inFlight.Add(1)
						time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
						again := rand.IntN(4) == 0
						inFlight.Add(-1)
						if again {
							lease.Update(usedUp("messages", 5, 50*time.Millisecond))
							continue
						}
						lease.Update(limited("messages", 5, 4, 100*time.Millisecond))
						sent.Add(1)
						return
					}
				})
			}
			time.Sleep(500 * time.Millisecond)
			closing.Store(true)
			assert.NoError(t, m.Shutdown(background))
			assert.Zero(t, inFlight.Load())
			assert.Zero(t, m.Stats().Waiting+m.Stats().InFlight)
			all.Wait()
			assert.Zero(t, refusedBefore.Load())
			assert.NotZero(t, sent.Load())
		})
	}
}

// A hook panics at the end of the last request. Shutdown must return nevertheless.
func TestShutdownEndsAfterAHookThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithHooks(buckets.Hooks{Held: func(context.Context, buckets.Held) { panic("hook") }}))
		c := ask(m, message(1))
		require.True(t, c.granted())
		done := false
		go func() {
			_ = m.Shutdown(background)
			done = true
		}()
		wait(time.Second)
		require.False(t, done)
		func() {
			defer func() { assert.Equal(t, "hook", recover()) }()
			c.lease.Update(refused(ratelimits.ClassGlobal, time.Second))
		}()
		wait(time.Minute)
		assert.True(t, done)
	})
}

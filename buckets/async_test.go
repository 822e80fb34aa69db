package buckets_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// told is what the callers of AcquireFunc were told, in that order.
type told struct {
	manager  *buckets.RESTBucketManager
	requests [100]buckets.Request
	mu       sync.Mutex
	answers  []answer
}

type answer struct {
	of    int // the request's number
	lease buckets.Lease
	err   error
	after time.Duration
}

func (x *told) all() []answer {
	synctest.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.answers)
}

// queue queues so many messages to a channel from this goroutine.
func (x *told) queue(ctx context.Context, n int) {
	start := time.Now()
	for i := range n {
		x.requests[i] = buckets.Request{Route: message(1), Authorization: bot}
		x.manager.AcquireFunc(ctx, &x.requests[i], func(lease buckets.Lease, err error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.answers = append(x.answers, answer{i, lease, err, time.Since(start).Truncate(time.Second)})
		})
	}
}

func TestOneGoroutineQueuesManyAndIsToldInTheirOrder(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("h", 5, 4, 5*time.Second))
		x := told{manager: m}
		x.queue(context.Background(), 12)
		require.Len(t, x.all(), 4, "as many as the window has left")
		require.Equal(t, 8, m.Stats().Waiting)
		for sent := 0; sent < 12; wait(10 * time.Millisecond) {
			for _, a := range x.all()[sent:] {
				require.Equal(t, sent, a.of)
				require.NoError(t, a.err)
				require.Equal(t, time.Duration((sent+1)/5)*5*time.Second, a.after)
				a.lease.Update(limited("h", 5, 4-(sent+1)%5, 5*time.Second))
				sent++
			}
		}
		require.Len(t, x.all(), 12)
		s := m.Stats()
		assert.Equal(t, uint64(8), s.Waited)
		assert.InDelta(t, 5*5*time.Second+3*10*time.Second, s.WaitTime, float64(time.Second))
		drained(t, m)
	})
}

func TestCallerIsToldOnceOfTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("h", 2, 1, 5*time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		x := told{manager: m}
		x.queue(ctx, 3)
		other := ask(m, message(1))
		cancel()
		answers := x.all()
		require.Len(t, answers, 3)
		require.NoError(t, answers[0].err, "it was granted before")
		for _, a := range answers[1:] {
			require.ErrorIs(t, a.err, context.Canceled)
			require.Zero(t, a.lease)
		}
		assert.Equal(t, uint64(2), m.Stats().Cancelled)
		answers[0].lease.Update(limited("h", 2, 0, 5*time.Second))
		wait(5*time.Second + 10*time.Millisecond)
		require.True(t, other.granted(), "it does not stand behind those who left")
		other.lease.Release()
		wait(time.Minute)
		assert.Len(t, x.all(), 3)
		drained(t, m)
	})
}

func TestCallerIsToldWhatTheBlockingFormReturns(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		fresh := buckets.NewRESTBucketManager()
		m := started(t, buckets.WithMaxRateLimit(time.Second))
		discover(t, m, message(1), limited("h", 5, 0, time.Minute))
		for _, c := range []struct {
			m       *buckets.RESTBucketManager
			ctx     context.Context
			request *buckets.Request
		}{
			{m, context.Background(), &buckets.Request{Route: message(2)}},
			{m, context.Background(), &buckets.Request{Route: message(1), Authorization: bot}},
			{m, ended, &buckets.Request{Route: message(2)}},
			{m, nil, &buckets.Request{Route: message(2)}},
			{m, context.Background(), &buckets.Request{}},
			{m, context.Background(), nil},
			{fresh, context.Background(), &buckets.Request{Route: message(2)}},
		} {
			before := m.Stats()
			lease, want := c.m.AcquireRequest(c.ctx, c.request)
			lease.Return()
			middle := m.Stats()
			calls := 0
			c.m.AcquireFunc(c.ctx, c.request, func(lease buckets.Lease, err error) {
				lease.Return()
				calls++
				assert.Equal(t, want, err)
			})
			synctest.Wait()
			assert.Equal(t, 1, calls)
			after := m.Stats()
			assert.Equal(t, middle.TooLong-before.TooLong, after.TooLong-middle.TooLong)
			assert.Equal(t, middle.Granted-before.Granted, after.Granted-middle.Granted)
		}
		m.AcquireFunc(context.Background(), &buckets.Request{Route: message(2)}, nil)
		drained(t, m)
	})
}

func TestCloseTellsAllWhoWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("h", 5, 0, time.Minute))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		x := told{manager: m}
		x.queue(ctx, 3)
		require.Empty(t, x.all())
		require.NoError(t, m.Close())
		require.Len(t, x.all(), 3)
		for _, a := range x.all() {
			require.ErrorIs(t, a.err, buckets.ErrClosed)
		}
	})
}

// What is called may do whatever any goroutine may: use the manager, take its time, and even end.
func TestWhatIsCalledMayUseTheManager(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("h", 5, 4, time.Minute))
		first, second := &buckets.Request{Route: message(1), Authorization: bot}, &buckets.Request{Route: message(1), Authorization: bot}
		var calls []string
		m.AcquireFunc(context.Background(), first, func(lease buckets.Lease, err error) {
			calls = append(calls, "first")
			assert.NoError(t, err)
			lease.Update(limited("h", 5, 3, time.Minute))
			blocking, err := m.Acquire(context.Background(), message(7), bot)
			assert.NoError(t, err)
			blocking.Return()
			m.AcquireFunc(context.Background(), second, func(lease buckets.Lease, err error) {
				calls = append(calls, "second")
				lease.Return()
				runtime.Goexit()
			})
			m.AcquireFunc(context.Background(), first, func(lease buckets.Lease, err error) {
				calls = append(calls, "third")
				lease.Return()
			})
		})
		synctest.Wait()
		assert.Equal(t, []string{"first", "second", "third"}, calls)
		drained(t, m)
	})
}

func TestTryAcquireNeverWaits(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		m := started(t)
		probe, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err, "the request that finds out")
		_, err = m.TryAcquire(message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Zero(t, tooLong.Wait, "nobody can tell")
		probe.Update(limited("h", 3, 2, time.Minute))
		start := time.Now()
		for range 2 {
			lease, err := m.TryAcquire(message(1), bot)
			require.NoError(t, err)
			lease.Release()
		}
		_, err = m.TryAcquire(message(1), bot)
		require.ErrorAs(t, err, &tooLong)
		assert.InDelta(t, time.Minute, tooLong.Wait, float64(10*time.Millisecond))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, uint64(2), m.Stats().TooLong)
		drained(t, m)
	})
}

// watched is a context that counts who watches it. Somebody may be called when the next one begins to.
type watched struct {
	context.Context
	end       chan struct{}
	watching  int
	meanwhile func()
}

func (c *watched) Done() <-chan struct{} { return c.end }

func (c *watched) AfterFunc(func()) (stop func() bool) {
	c.watching++
	if c.meanwhile != nil {
		c.meanwhile()
	}
	return func() bool { c.watching--; return true }
}

// A program may use one context for all that it sends.
func TestNothingWatchesTheContextOfARequestThatIsAnswered(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"after a while": false, "before its watch has begun": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				m := started(t)
				probe := ask(m, message(1))
				ctx := &watched{Context: background, end: make(chan struct{})}
				answer := func() { probe.update(limited("h", 5, 4, time.Minute)) }
				if during {
					ctx.meanwhile = answer
				}
				x := told{manager: m}
				x.queue(ctx, 1)
				if !during {
					require.Equal(t, 1, ctx.watching)
					answer()
				}
				require.Len(t, x.all(), 1)
				assert.Zero(t, ctx.watching)
				x.all()[0].lease.Release()
			})
		})
	}
}

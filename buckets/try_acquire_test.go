package buckets_test

import (
	"context"
	"runtime"
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
)

// interrupted is a context that lets something happen in the middle of Acquire, when it is asked for a value.
type interrupted struct {
	context.Context
	meanwhile func()
}

func (c interrupted) Value(key any) any {
	c.meanwhile()
	return c.Context.Value(key)
}

// A request that is about to be granted does not leave after the edge has refused another one.
func TestTheEdgeMayCloseWhileARequestIsAsked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("h", 5, 4, time.Minute))
		first, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err)
		var once sync.Once
		ctx := interrupted{buckets.ContextWithMaxWait(context.Background(), 0), func() {
			once.Do(func() { first.Update(refused(ratelimits.ClassEdge, 10*time.Second)) })
		}}
		_, err = m.Acquire(ctx, message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		require.Equal(t, ratelimits.ClassEdge, tooLong.Class)
	})
}

// gatedClock lets whoever asks for the time next wait, when it is told to, and counts how often it was asked.
type gatedClock struct {
	clockwork.Clock
	asked atomic.Int64
	next  atomic.Pointer[chan struct{}]
}

func (c *gatedClock) Since(t time.Time) time.Duration {
	if wait := c.next.Swap(nil); wait != nil {
		<-*wait
	}
	c.asked.Add(1)
	return c.Clock.Since(t)
}

// reaches waits until the time was asked for n times in all, or nothing more happens.
func (c *gatedClock) reaches(n int64) {
	for i := 0; c.asked.Load() < n && i < 100_000; i++ {
		runtime.Gosched()
	}
}

// The first part of the global limit has come, and a permit is on its way to whoever does not wait, when other news
// come.
func TestTryAcquireIsNotRefusedWhileItsPermitIsOnItsWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		h.term = time.Minute
		clock := &gatedClock{Clock: clockwork.NewRealClock()}
		other := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(50))
		discover(t, other, message(1), limited("messages", 5, 4, time.Second))
		require.NoError(t, other.Close())
		h.mu.Lock()
		h.mean = true
		h.mu.Unlock()
		m := started(t, buckets.WithShared(h), buckets.WithGlobalLimit(50), buckets.WithClock(clock))
		c := call(buckets.ContextWithMaxWait(background, 0), m, buckets.Request{Route: message(1), Authorization: bot})
		require.False(t, c.done(), "its part is not known")
		require.Len(t, h.sessions, 1)
		require.Len(t, h.sessions[0].buckets, 1)
		h.mu.Lock()
		bucket, global := h.sessions[0].buckets[0], h.globals[h.sessions[0].Credential(bot)][0]
		global.part = 50
		h.mu.Unlock()

		goOn := make(chan struct{})
		clock.next.Store(&goOn)
		go bucket.changed() // keeps the bucket locked
		synctest.Wait()
		for range 2 { // the first takes a permit to the bucket, the second finds nobody in line
			before := clock.asked.Load()
			go global.changed()
			clock.reaches(before + 2)
			for range 1000 {
				runtime.Gosched()
			}
		}
		close(goOn)
		synctest.Wait()
		require.True(t, c.granted(), "%v", c.failed())
	})
}

func TestTryAcquireNeverWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
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
	})
}

package buckets_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// interrupted is a context that calls a function in the middle of Acquire, when Acquire asks for a value.
type interrupted struct {
	context.Context
	meanwhile func()
}

func (c interrupted) Value(key any) any {
	c.meanwhile()
	return c.Context.Value(key)
}

// The edge refuses a request while another one is being acquired. That one must not be granted.
func TestTheEdgeMayCloseWhileARequestIsAsked(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("h", 5, 4, time.Minute))
		first, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err)
		var once sync.Once
		ctx := interrupted{buckets.ContextWithMaxWait(background, 0), func() {
			once.Do(func() { first.Update(refused(ratelimits.ClassEdge, 10*time.Second)) })
		}}
		_, err = m.Acquire(ctx, message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		require.Equal(t, ratelimits.ClassEdge, tooLong.Class)
	})
}

func TestTryAcquireNeverWaits(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe, err := m.TryAcquire(message(1), bot)
		require.NoError(t, err, "the first request discovers the bucket")
		_, err = m.TryAcquire(message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Zero(t, tooLong.Wait, "the wait is not known")
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

package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// request describes a request as the others of these tests are.
func request(route routes.CompiledRoute) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot}
}

func TestReadyTimeSaysWhatForWithoutQueueing(t *testing.T) {
	t.Parallel()
	predict := func(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute) (time.Duration, buckets.WaitsFor) {
		t.Helper()
		waited, because, err := m.Predict(request(route))
		require.NoError(t, err)
		return waited, because
	}
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(50))
		wait, because := predict(t, m, message(1))
		assert.Zero(t, wait)
		assert.Equal(t, buckets.WaitsForNothing, because, "nothing is known of it")
		assert.Empty(t, m.Stats().Buckets, "and nothing is made for it")

		probe := ask(m, message(1))
		wait, because = predict(t, m, message(1))
		assert.Zero(t, wait)
		assert.Equal(t, buckets.WaitsForProbe, because)
		probe.update(limited("messages", 5, 4, time.Second))
		_, because = predict(t, m, message(1))
		assert.Equal(t, buckets.WaitsForNothing, because, "there is room")

		ask(m, list(9)).update(refused(ratelimits.ClassGlobal, time.Minute))
		for _, route := range []routes.CompiledRoute{message(1), message(7)} {
			wait, because = predict(t, m, route)
			assert.InDelta(t, time.Minute, wait, float64(time.Second))
			assert.Equal(t, buckets.WaitsForGlobal, because)
		}
		m.LiftHolds()
		ask(m, list(9)).update(refused(ratelimits.ClassEdge, time.Minute))
		for _, route := range []routes.CompiledRoute{message(1), message(7)} {
			wait, because = predict(t, m, route)
			assert.InDelta(t, time.Minute, wait, float64(time.Second))
			assert.Equal(t, buckets.WaitsForEdge, because)
		}
	})
}

// A declared limit counts though its bucket is not known, or not any more.
func TestReadyTimeCountsDeclaredLimitsOfForgottenBuckets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		panics := false
		options := []buckets.Option{buckets.WithLimit(buckets.ForAll(), 1, time.Hour, buckets.PerMajor(), buckets.Named("d")),
			buckets.WithLimit(buckets.ForAll(), 100, time.Hour, buckets.Named("p"), buckets.PerKey(func(*buckets.Request) string {
				if panics {
					panic("of the caller's")
				}
				return ""
			}))}
		m := started(t, options...)
		c := ask(m, message(1))
		wait, because, err := m.Predict(request(list(1))) // in another bucket, and never seen
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, wait, float64(time.Second), "if it is answered at once")
		assert.Equal(t, buckets.WaitsForDeclared, because)
		c.update(limited("messages", 5, 4, time.Second))
		wait, because, err = m.Predict(request(message(1)))
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, wait, float64(time.Second))
		assert.Equal(t, buckets.WaitsForDeclared, because)

		time.Sleep(10 * time.Minute)
		require.Zero(t, m.Stats().Buckets)
		restored := successor(t, stateOf(t, m, true), options...)
		for _, route := range []routes.CompiledRoute{message(1), list(1)} {
			wait, because, err = restored.Predict(request(route))
			require.NoError(t, err)
			assert.InDelta(t, 50*time.Minute, wait, float64(time.Second))
			assert.Equal(t, buckets.WaitsForDeclared, because)
		}
		wait, because, err = restored.Predict(request(message(2)))
		require.NoError(t, err)
		assert.Zero(t, wait)
		assert.Equal(t, buckets.WaitsForNothing, because)
		panics = true
		_, _, err = restored.Predict(request(message(2)))
		require.ErrorContains(t, err, `"p" panicked`)
	})
}

// Nobody is ahead of a request that comes back to its place.
func TestReadyTimeOfARequestThatComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		wait(61 * time.Second)
		first := ask(m, message(1))
		require.True(t, first.granted())
		asks(m, message(1), 3)
		first.update(inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 1, 0, time.Minute))
		back, because, err := m.Predict(&first.request)
		require.NoError(t, err)
		assert.InDelta(t, time.Minute, back, float64(time.Second))
		assert.Equal(t, buckets.WaitsForWindow, because)
		behind, _, err := m.Predict(request(message(1)))
		require.NoError(t, err)
		assert.InDelta(t, 4*time.Minute, behind, float64(time.Second))
	})
}

// What another manager has left is known before the first request.
func TestReadyTimeOfARestoredBucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 5, 0, time.Minute))
		m = successor(t, stateOf(t, m, true))
		wait, because, err := m.Predict(request(message(1)))
		require.NoError(t, err)
		assert.InDelta(t, time.Minute, wait, float64(time.Second))
		assert.Equal(t, buckets.WaitsForWindow, because)
	})
}

func TestReadyTimeOfWhatIsRefusedAnyway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager()
		_, _, err := m.Predict(request(message(1)))
		require.ErrorIs(t, err, buckets.ErrNotStarted)
		m = started(t)
		_, _, err = m.Predict(nil)
		require.ErrorContains(t, err, "compiled route is empty")
		m.Close()
		_, _, err = m.Predict(request(message(1)))
		require.ErrorIs(t, err, buckets.ErrClosed)
	})
}

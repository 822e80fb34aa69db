package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// behindOthers returns a manager with a declared limit of five per second, in whose line 150 requests stand, of which
// their bucket allows one in two seconds.
func behindOthers(t *testing.T) *buckets.RESTBucketManager {
	m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithLimit(buckets.ForAll(), 5, time.Second))
	narrow, ample := limited("messages", 1, 0, 2*time.Second), limited("lists", 1_000_000, 999_999, time.Second)
	discover(t, m, message(1), narrow)
	discover(t, m, list(1), ample)
	wait(3 * time.Second)
	queueUp(m, always(list(1)), "", 5, ample, &sentLog{})
	queueUp(m, always(message(1)), "", 150, narrow, &sentLog{})
	return m
}

// Of the requests that are ahead at a declared limit, only those count that can leave meanwhile.
//
// It was 31 s for a request that leaves after 1 s.
func TestPredictionCountsWhatCanLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := behindOthers(t)
		predicted, _, err := m.Predict(request(list(1)))
		require.NoError(t, err)
		start := time.Now()
		c := ask(m, list(1))
		wait(time.Minute)
		require.True(t, c.granted())
		assert.LessOrEqual(t, c.at.Sub(start), 2*time.Second)
		assert.InDelta(t, c.at.Sub(start), predicted, float64(2*time.Second))
	})
}

// A request that would leave in time is not rejected.
//
// One was rejected that would leave after 1 s.
func TestNoRequestIsRejectedThatWouldLeaveInTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := call(buckets.ContextWithMaxWait(background, 10*time.Second), behindOthers(t), *request(list(1)))
		require.NoError(t, c.failed())
		wait(4 * time.Second)
		assert.True(t, c.granted())
	})
}

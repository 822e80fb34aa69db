package buckets

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/internal/fifo"
)

// A queue keeps its turn before the global limit while it stands in another line, also if it changes places there.
func TestQueuesThatChangePlacesKeepTheirTurnsElsewhere(t *testing.T) {
	t.Parallel()
	gate, own, other := &turns{}, &queue{}, &queue{}
	own.place.turn = turn{of: gate, tenant: gate.tenant(tenantKey{}), start: 5 * turnTime}
	l := &line{}
	for i, q := range []*queue{own, other} {
		q.place.Element = fifo.Element[*queue]{Value: q, Arrived: time.Duration(1 + i)}
		l.queues.Insert(&q.place.Element)
	}
	l.swap(own, other)
	assert.Equal(t, other, l.first())
	assert.Equal(t, 5*turnTime, own.place.start)
	assert.Zero(t, other.place.turn)
}

// The largest limits do not overflow what is predicted.
func TestWhatAnExtremeWindowLetsLeave(t *testing.T) {
	t.Parallel()
	for _, period := range []time.Duration{time.Millisecond, time.Second, 24 * time.Hour} {
		for _, limit := range []int{1, 5, 50_000_000, maxDeclaredLimit} {
			var s source
			s.window.Declare(limit, period)
			assert.Equal(t, 1000, s.canLeave(0, longestWait, 1000), "%d in %v", limit, period)
			s.window.Hold(0, time.Hour)
			assert.Equal(t, 1000, s.canLeave(0, longestWait, 1000), "%d in %v, held", limit, period)
			assert.Zero(t, s.canLeave(0, time.Minute, 1000), "%d in %v, held", limit, period)
		}
	}
}

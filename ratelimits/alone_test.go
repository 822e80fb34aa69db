package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After a request without an answer, of a bucket that may be leaky, one goes when nothing else is charged. That is still so if the first one that could
// was not sent after all.
func TestWhoIsToGoAloneIsStillWhenOneWasReturned(t *testing.T) {
	t.Parallel()
	var w Window
	p, ok := w.Take(time.Second)
	require.True(t, ok)
	w.Report(2*time.Second, p, Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Second})
	p, ok = w.Take(10 * time.Second)
	require.True(t, ok)
	w.Lost(11*time.Second, p)
	p, ok = w.Take(time.Minute)
	require.True(t, ok)
	w.Return(time.Minute, p)
	w.Adopt(time.Minute, time.Minute) // of another bucket
	_, ok = w.Take(time.Minute)
	assert.False(t, ok, "another request is in flight")
}

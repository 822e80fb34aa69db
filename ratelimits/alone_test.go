package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// After a request without an answer, of a bucket that may be leaky, one goes when nothing else is charged. That is
// still so if the first one that could was not sent after all.
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

// A leaky bucket is fuller by everything that it has counted, also by what an error without limits has answered. So one
// goes when nothing else is charged.
func TestAfterErrorsWithoutLimitsOneGoesAloneIntoWhatMayBeALeakyBucket(t *testing.T) {
	t.Parallel()
	var w Window
	p, _ := w.Take(time.Second)
	w.Report(time.Second, p, Response{Status: 200, Limited: true, Limit: 2, Remaining: 1, ResetAfter: 125 * time.Millisecond})
	for _, at := range []time.Duration{time.Second, 1127 * time.Millisecond} {
		p, ok := w.Take(at)
		require.True(t, ok)
		w.Report(at, p, Response{Status: 503})
	}
	_, ok := w.Take(1128 * time.Millisecond)
	assert.False(t, ok, "the second error may have been counted")
	_, ok = w.Take(1253 * time.Millisecond)
	assert.True(t, ok)
}

// A success without limits has been counted once at most, and the ledger has it. So one goes first when its place comes
// back, but not alone.
func TestAfterASuccessWithoutLimitsOneGoesFirstButNotAlone(t *testing.T) {
	t.Parallel()
	var w Window
	report := func(at time.Duration, r Response) { w.Report(at, takeAt(t, &w, at), r) }
	report(time.Second, says(5, 4, 200*time.Millisecond))
	report(1100*time.Millisecond, Response{Status: 200})
	report(1150*time.Millisecond, says(5, 2, 450*time.Millisecond)) // of a leaky bucket, perhaps
	at := 1560 * time.Millisecond                                   // only the last is charged
	takeAt(t, &w, at)
	_, more := w.Take(at)
	assert.False(t, more)
}

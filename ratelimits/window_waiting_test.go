package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// A request takes so long that the next one goes without its outcome.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	ok := ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Minute}
	for name, prepare := range map[string]func(w *ratelimits.Window){
		"unknown": func(*ratelimits.Window) {},
		"first after a hold": func(w *ratelimits.Window) {
			p, _ := w.Take(0)
			w.Report(0, p, ok)
			w.Hold(0, time.Millisecond)
		},
		"recalled": func(w *ratelimits.Window) { w.Recall(5, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w ratelimits.Window
			prepare(&w)
			now := time.Second
			slow, took := w.Take(now)
			require.True(t, took)
			_, took = w.Take(now)
			require.False(t, took, "it goes first")
			slow = w.StopWaiting(w.StopWaiting(slow)) // twice is once
			second, took := w.Take(now)
			require.True(t, took)
			_, took = w.Take(now)
			require.False(t, took, "now that one goes first")
			assert.Equal(t, 2, w.InFlight())
			w.Lost(now, slow)
			_, took = w.Take(now)
			require.False(t, took, "and its outcome is still waited for")
			w.Report(now, second, ok)
			assert.Zero(t, w.InFlight())
			assert.LessOrEqual(t, w.Remaining(now), 4)
			_, took = w.Take(now)
			assert.True(t, took)
		})
	}
}

// A bucket that may be leaky lets a request go alone after a lost one. One in flight from before is not waited for
// either.
func TestStopWaitingForOneThatWouldGoAlone(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	answer := func(remaining int) ratelimits.Response {
		return ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: remaining, ResetAfter: time.Second}
	}
	p, _ := w.Take(0)
	w.Report(0, p, answer(4))
	slow, took := w.Take(0)
	require.True(t, took)
	lost, took := w.Take(0)
	require.True(t, took)
	w.Lost(0, lost)
	now := time.Minute
	_, ok := w.Next(now)
	require.False(t, ok, "its outcome has to be known before")
	slow = w.StopWaiting(slow)
	at, ok := w.Next(now)
	require.True(t, ok)
	assert.LessOrEqual(t, at, now)
	w.Report(now, slow, answer(4))
	assert.Zero(t, w.InFlight())
}

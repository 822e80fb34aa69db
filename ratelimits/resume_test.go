package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// written returns what a process finds that another one has left: a window as it was written.
func written(t *testing.T, w *ratelimits.Window) ratelimits.Window {
	t.Helper()
	found, rest, err := ratelimits.DecodeWindow(w.Append(nil))
	require.NoError(t, err)
	require.Empty(t, rest)
	return found
}

// used returns a window of 5 per 10 s of which a number of places were used at the time of an hour, and more are in
// flight.
func used(n, inFlight int) (w ratelimits.Window, now time.Duration) {
	now = time.Hour
	w.ExpectLate(now, 0)
	for i := range n {
		p, _ := w.Take(now)
		now += time.Millisecond
		w.Report(now, p, ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4 - i, ResetAfter: 10 * time.Second})
	}
	for range inFlight {
		w.Take(now)
	}
	return w, now
}

func TestRestOfAWindowIsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	before, now := used(3, 0)
	w := written(t, &before)
	w.Resume(now, true)
	assert.Equal(t, 2, w.Remaining(now))
	assert.Equal(t, before.Reset(), w.Reset())
	assert.False(t, w.Probing())
}

func TestRequestsInFlightAtTheEndOfAProcessAreLost(t *testing.T) {
	t.Parallel()
	before, now := used(1, 3)
	w := written(t, &before)
	now += time.Second
	w.Resume(now, true)
	assert.Zero(t, w.InFlight())
	assert.Equal(t, 1, w.Remaining(now))
	now += 9*time.Second + 500*time.Millisecond
	assert.Equal(t, 2, w.Remaining(now), "the first is forgotten, the others may have arrived at the last moment")
	assert.Equal(t, 5, w.Remaining(now+time.Second))
}

func TestWindowThatMayHaveBeenUsedSinceItWasWrittenIsFullForAPeriod(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		for _, inFlight := range []int{0, 5 - n} {
			for _, ago := range []time.Duration{0, 5 * time.Second, time.Minute} {
				before, now := used(n, inFlight)
				w := written(t, &before)
				now += ago
				w.Resume(now, false)
				at, ok := w.Next(now)
				for again := now; ok && at > again; { // it may have to be asked more than once
					again = at
					at, ok = w.Next(again)
				}
				require.True(t, ok)
				assert.Greater(t, at, now+10*time.Second, "%d of 5, and %d in flight, %v ago", n, inFlight, ago)
				assert.LessOrEqual(t, at, now+10*time.Second+10*time.Millisecond)
				assert.Equal(t, 5, w.Remaining(at))
				_, first := w.Take(at)
				_, second := w.Take(at)
				assert.True(t, first)
				assert.Equal(t, n > 1 && inFlight == 0, second, "it may be a leaky bucket that is not empty yet, unless responses have ruled that out")
			}
		}
	}
}

// A log that names its next place names its period only to a request that finds it empty, which may have been long ago.
func TestWindowThatMayBeALogIsFullForThePeriodThatItOnceNamed(t *testing.T) {
	t.Parallel()
	now := time.Hour
	var before ratelimits.Window
	answered := func(remaining int, after time.Duration) {
		before.Report(now, take(t, &before, now), ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: remaining, ResetAfter: after})
	}
	answered(4, time.Second)
	for range 4 { // somebody else comes first
		now += 1600 * time.Millisecond
		answered(3, 500*time.Millisecond)
	}
	require.Equal(t, 500*time.Millisecond, before.Period())
	w := written(t, &before)
	w.Resume(now, false)
	at, ok := w.Next(now)
	require.True(t, ok)
	assert.GreaterOrEqual(t, at, now+time.Second)
}

func TestWindowOfAKnownKindIsNotProbedAfterAPeriod(t *testing.T) {
	t.Parallel()
	var before ratelimits.Window
	now := time.Hour
	before.ExpectLate(now, 0)
	for i := range 4 { // that all end at the same time shows that the window is fixed
		p, ok := before.Take(now)
		require.True(t, ok)
		before.Report(now, p, ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4 - i, ResetAfter: 10*time.Second - time.Duration(i)*time.Second})
		now += time.Second
	}
	w := written(t, &before)
	w.Resume(now, false)
	now += 10*time.Second + 2*time.Millisecond
	for range 5 {
		_, ok := w.Take(now)
		assert.True(t, ok)
	}
}

func TestWindowThatKnowsNothingIsResumedAsOneThatKnowsNothing(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{true, false} {
		var before ratelimits.Window
		before.Take(time.Hour)
		w := written(t, &before)
		w.Resume(time.Hour, exact)
		_, ok := w.Take(time.Hour)
		assert.True(t, ok)
		_, ok = w.Take(time.Hour)
		assert.False(t, ok)
	}
}

// What has passed a hidden limit may have passed it again when the other process came to its end.
func TestHiddenLimitIsUsedUpForTheNextProcess(t *testing.T) {
	t.Parallel()
	before := known(t, 20, second)
	for i := range 4 {
		before.exchange(0, ok(20, 18-i, second))
	}
	before.exchange(0, shared(10*second)) // five have passed
	now := 10*second + rounding
	for i := range 4 {
		before.exchange(now, ok(20, 19-i, second))
	}
	w := written(t, &before.Window)
	b := &bucket{w, t}
	b.Resume(18*second, false)
	now = 23 * second // the four would have come back
	b.exchange(now, ok(20, 19, second))
	b.burst(now, 1)
}

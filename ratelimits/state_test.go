package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func take(t *testing.T, w *ratelimits.Window, now time.Duration) ratelimits.Permit {
	t.Helper()
	p, ok := w.Take(now)
	require.True(t, ok)
	return p
}

func TestWindowGoesOnFromAState(t *testing.T) {
	t.Parallel()
	const s = time.Second
	var w ratelimits.Window
	w.Report(s, take(t, &w, 0), ratelimits.Response{Status: 200, Limited: true, Limit: 3, Remaining: 2, ResetAfter: 5 * s})
	take(t, &w, 2*s)
	state := w.State(2 * s)
	assert.Equal(t, 3, state.Limit)
	assert.Equal(t, 1, state.Used, "the one in flight is not in it")
	assert.InDelta(t, 4*s, state.Reset, float64(2*time.Millisecond))
	assert.Equal(t, 5*s, state.Period)

	other := ratelimits.NewWindow(100*s, state)
	other.Adopt(100*s, 100*s)
	take(t, &other, 100*s)
	_, ok := other.Take(100 * s)
	assert.False(t, ok, "three are charged")
	at, ok := other.Next(100 * s)
	require.True(t, ok)
	assert.Equal(t, 100*s+state.Reset, at)
	assert.Zero(t, w.State(10*s).Used, "all have come back")
}

func TestStateCarriesAHold(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	w.HoldFor(0, time.Minute, ratelimits.ClassShared)
	state := w.State(20 * time.Second)
	assert.Equal(t, 40*time.Second, state.Hold)
	other := ratelimits.NewWindow(0, state)
	assert.Equal(t, 40*time.Second, other.HoldWait(0))
	assert.Equal(t, ratelimits.ClassShared, other.HoldClass(0))
	assert.True(t, other.Probing())
}

func TestStateOfAnUnknownWindowSaysHowManyWereNeverAnswered(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	w.Lost(1, take(t, &w, 0))
	w.Report(3, take(t, &w, 2), ratelimits.Response{Status: 502})
	state := w.State(4)
	assert.Zero(t, state.Limit)
	assert.Equal(t, 2, state.Used)
	assert.Zero(t, state.Reset)
}

func TestStateWithoutLimitOrOfAWindowThatIsOverLetsGo(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	w.Unlimit()
	assert.True(t, w.State(0).Unlimited)
	unlimited := ratelimits.NewWindow(0, w.State(0))
	take(t, &unlimited, 0)
	take(t, &unlimited, 0)
	over := ratelimits.NewWindow(0, ratelimits.State{Limit: 1, Used: 1, Period: time.Second})
	take(t, &over, 0) // the window is over, whatever was used of it
}

// What was answered elsewhere may have been counted after a request whose answer comes here, and counts a few only.
func TestAnswerTellsNothingOfRequestsThatWereAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	w := ratelimits.NewWindow(second, ratelimits.State{Limit: 5, Used: 3, Reset: 10 * second, Period: 10 * second})
	early := w.Adopt(second, second-10*ms)
	w.Report(second+10*ms, early, ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 3, ResetAfter: 10 * second})
	assert.LessOrEqual(t, w.Remaining(second+10*ms), 1)

	var from, to ratelimits.Window
	sent, _ := from.Take(0)
	other := from.Adopt(0, 0)
	from.Lost(10*ms, other)
	moved := to.AdoptFrom(10*ms, &from, sent)
	to.Report(20*ms, moved, ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: 10 * second})
	assert.Equal(t, 3, to.Remaining(20*ms), "the lost one may have come later")
}

// A guess stays a guess when it is handed on.
func TestRecalledLimitIsStillAGuessInAState(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Recall(5, second)
	require.False(t, b.Known())
	other := ratelimits.NewWindow(0, b.State(0))
	assert.False(t, other.Known())
	p, granted := other.Take(0)
	require.True(t, granted)
	other.Report(10*ms, p, ok(50, 49, second))
	assert.Equal(t, 50, other.Limit(), "the first answer replaces a guess")
}

// The place of a request whose response says nothing may come back later than is thought: then one goes first, wherever
// that is.
func TestStateOfAWindowThatDoesNotKnowWhenAPlaceComesBackLetsOneGoFirst(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	p := take(t, &w, 0)
	w.Report(0, p, ratelimits.Response{Status: 200, Limited: true, Limit: 3, Remaining: 2, ResetAfter: time.Second})
	p = take(t, &w, 0)
	w.Report(0, p, ratelimits.Response{Status: 502})
	assert.True(t, w.State(10*ms).Probing)
	assert.True(t, w.State(time.Minute).Probing)
}

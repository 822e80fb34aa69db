package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// declared is a new window of a declared limit.
func declared(limit int, period time.Duration) (w ratelimits.Window) {
	w.Declare(limit, period)
	return w
}

// overAt lets requests of a window be over at those times.
func overAt(t *testing.T, w *ratelimits.Window, at ...time.Duration) {
	t.Helper()
	for _, now := range at {
		w.Report(now, take(t, w, now), ratelimits.Response{Status: 200})
	}
}

// room returns how many more may be sent.
func room(w *ratelimits.Window, now time.Duration) (n int) {
	for ; ; n++ {
		if _, ok := w.Take(now); !ok {
			return n
		}
	}
}

func TestDeclaredLimitGoesOnFromAState(t *testing.T) {
	t.Parallel()
	const s = time.Second
	w := declared(3, 10*s)
	overAt(t, &w, s)
	require.True(t, w.Declared())
	other := ratelimits.NewWindow(100*s, w.State(2*s))
	require.True(t, other.Declared())
	assert.Equal(t, 2, room(&other, 100*s))
	at, ok := other.Next(100 * s)
	require.True(t, ok)
	assert.Equal(t, 100*s+9*s, at)
}

func TestRefusedRequestDoesNotCountInADeclaredLimit(t *testing.T) {
	t.Parallel()
	w := declared(2, time.Minute)
	w.Report(0, take(t, &w, 0), shared(time.Second))
	assert.Equal(t, 2, room(&w, 0))
}

// What the other window has charged is not charged again for what has come back there.
func TestWhatHasComeBackInAnotherWindowOfADeclaredLimitIsNotCharged(t *testing.T) {
	t.Parallel()
	w, other := declared(5, 60*second), declared(5, 60*second)
	overAt(t, &other, 0, second, 50*second)
	overAt(t, &w, 50*second)
	w.Remember(70*second, &other, time.Hour)
	assert.Equal(t, 4, room(&w, 70*second))
}

// A response says nothing of a declared limit, so nothing goes first after a hold either.
func TestNothingGoesFirstAfterTheHoldOfADeclaredLimit(t *testing.T) {
	t.Parallel()
	w := declared(3, time.Minute)
	w.Hold(0, time.Second)
	assert.Zero(t, room(&w, time.Second-1))
	assert.Equal(t, 3, room(&w, time.Second))
}

func TestWhatAnotherWindowKnowsOfADeclaredLimitIsCharged(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		here, there []time.Duration // when requests were over
		until       time.Duration
		room        []int // after 10, 55, 65 and 71 s
	}{
		"nothing is known here":   {nil, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"as much is known here":   {[]time.Duration{0, 5 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"more is known here":      {[]time.Duration{0, 5 * s, 6 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{1, 1, 3, 4}},
		"the others come earlier": {[]time.Duration{5 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"it ends earlier":         {nil, []time.Duration{0, 5 * s}, 50 * s, []int{2, 4, 4, 4}},
		"by another clock":        {nil, []time.Duration{1000 * s, 1005 * s}, 2000 * s, []int{2, 2, 2, 4}},
		"it is over":              {nil, []time.Duration{0, 5 * s}, 9 * s, []int{4, 4, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, at := range []time.Duration{10 * s, 55 * s, 65*s + time.Millisecond, 71 * s} {
				w, other := declared(4, 60*s), declared(4, 60*s)
				overAt(t, &w, c.here...)
				overAt(t, &other, c.there...)
				w.Remember(10*s, &other, c.until)
				assert.Equal(t, c.room[i], room(&w, at), "after %v", at)
			}
		})
	}
}

func TestRequestThatIsNotSentForgetsNothingThatWasRemembered(t *testing.T) {
	t.Parallel()
	const s = time.Second
	w, other := declared(4, 60*s), declared(4, 60*s)
	overAt(t, &other, 0, 5*s)
	w.Remember(10*s, &other, 100*s)
	p, ok := w.Take(10 * s)
	require.True(t, ok)
	w.Return(10*s, p)
	assert.Equal(t, 2, room(&w, 10*s))
}

// What a window was before it is declared must not matter: a declared limit is tried by nobody.
func TestDeclaredWindowIsNotProbed(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	w.Hold(1, time.Second)
	w.Declare(5, time.Minute)
	now := 2 * time.Second
	p, ok := w.Take(now)
	require.True(t, ok)
	w.Report(now, p, ratelimits.Response{Status: 200})
	for i := range 4 {
		_, ok := w.Take(now)
		assert.True(t, ok, "number %d", i+2)
	}
	_, _, err := ratelimits.DecodeWindow(w.Append(nil))
	assert.NoError(t, err)
}

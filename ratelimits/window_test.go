package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestWindowTakesOnePlaceForEachRequest(t *testing.T) {
	t.Parallel()
	b := known(t, 11, 10*second)
	b.left(0, 10)
	b.send(0)
	b.left(0, 9)
	at, certain := b.Next(0)
	assert.True(t, certain)
	assert.Zero(t, at, "nothing to wait for")
	b.burst(0, 9)
	b.left(0, 0)
	assert.Equal(t, 10, b.InFlight())
}

func TestWindowThatIsClosedForAnotherReasonTakesNoPlace(t *testing.T) {
	t.Parallel()
	for name, close := range map[string]func(b *bucket){
		"held":             func(b *bucket) { b.Hold(0, second) },
		"its probe is out": func(b *bucket) { b.Hold(0, second); b.send(second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := known(t, 11, 10*second)
			close(b)
			left, inFlight := b.Remaining(second), b.InFlight()
			for range 20 {
				_, granted := b.Take(second - 1)
				assert.False(t, granted)
			}
			b.left(second, left)
			assert.Equal(t, inFlight, b.InFlight())
		})
	}
}

func TestUsedUpWindowTellsTheSameTimeHoweverOftenItIsAsked(t *testing.T) {
	t.Parallel()
	b := known(t, 3, second)
	b.burst(0, 2)
	for now := time.Duration(0); now < second; now += 100 * ms {
		_, granted := b.Take(now)
		assert.False(t, granted)
		at, certain := b.Next(now)
		assert.True(t, certain)
		assert.Equal(t, second+rounding, at)
	}
}

func TestUsedUpWindowOpensWhenItHasCertainlyClosedAndNotBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, received, after, opens time.Duration
	}{
		// The server may have answered when it was received, and the header may be a rounding too early.
		"no latency":     {0, 0, second, second + rounding},
		"latency":        {0, 200 * ms, second, 1200*ms + rounding},
		"350.6 s to go":  {60 * second, 60 * second, 360*second + 399*ms, 420*second + 400*ms},
		"already passed": {0, 200 * ms, 0, 200*ms + rounding},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.Report(c.received, b.send(c.sent), ok(1, 0, c.after))
			b.closedUntil(c.received, c.opens)
			b.send(c.opens)
		})
	}
}

func TestTimeToTheNextRequestIsWhatIsLeftOfTheWindow(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(60*second, ok(1, 0, 360*second+399*ms))
	at, certain := b.Next(69800 * ms)
	require.True(t, certain)
	assert.Equal(t, 350600*ms, at-69800*ms)
	assert.Equal(t, 350600*ms, b.Predict(69800*ms, 0))
}

func TestWindowIsFullAgainAfterItsEnd(t *testing.T) {
	t.Parallel()
	const period = 27 * second
	b := newBucket(t)
	for n := 26; n >= 3; n-- {
		b.exchange(53*second, ok(27, n, period))
	}
	b.left(60*second, 3)
	b.left(180*second, 27)
	assert.Less(t, b.Reset(), 180*second, "a window begins with its first request, not by the clock")

	b.exchange(180*second, ok(27, 26, period))
	assert.Equal(t, 207*second+rounding, b.Reset())
}

func TestOnlyARequestThatIsLeftMayLeave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(b *bucket)
		want int
	}{
		"one left":  {func(b *bucket) { b.exchange(0, ok(3, 1, 70*second)) }, 1},
		"none left": {func(b *bucket) { b.exchange(0, ok(3, 0, 70*second)) }, 0},
		"one more charged than there are, as the limit was lowered": {
			func(b *bucket) { b.exchange(0, ok(3, 1, 70*second)); b.exchange(0, ok(2, 0, 70*second)) }, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			c.set(b)
			b.left(second, c.want)
			b.burst(second, c.want)
			b.closedUntil(second, 70*second+rounding)
		})
	}
}

func TestQueueLeavesInBurstsOfOneWindowEach(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, queued, windows int
		period                 time.Duration
	}{
		"15 queued, one for each millisecond": {1, 15, 15, ms},
		"20 queued, five for each window":     {5, 20, 4, second},
		"7 queued, five for each window":      {5, 7, 2, second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			now, sent, windows := time.Duration(0), 0, 0
			for sent < c.queued {
				windows++
				for n := c.limit - 1; n >= 0 && sent < c.queued; n-- {
					b.exchange(now, ok(c.limit, n, c.period))
					sent++
				}
				reset := b.Reset()
				if b.Remaining(now) == 0 {
					b.closedUntil(now, reset)
				}
				now = reset
			}
			assert.Equal(t, c.windows, windows)
			at, certain := b.Next(now)
			assert.True(t, certain)
			assert.Equal(t, now, at, "the next one finds an open window")
		})
	}
}

// The old clients sent one at a time; a window lets go whatever it has, and the one that uses it up is not held back
// either.
func TestAllThatIsLeftLeavesAtOnceWithoutWaitingForAnswers(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	permits := b.burst(10*ms, 4)
	b.left(10*ms, 0)
	for i, p := range permits {
		b.Report(110*ms, p, ok(5, 3-i, 940*ms))
	}
	assert.Zero(t, b.InFlight())
	b.left(110*ms, 0)
}

func TestWholeBatchFollowsTheResetOfAFixedWindow(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second)
	for n := 2; n >= 0; n-- {
		b.exchange(200*ms, ok(5, n, 800*ms))
	}
	b.closedUntil(200*ms, second+rounding)
	b.burst(second+rounding, 5)
}

func TestAnswersOfOneWindowNarrowItsEnd(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second) // closes at 1 s, between the ways of each answer
	b.Report(500*ms, b.send(200*ms), ok(5, 2, 760*ms))
	b.Report(560*ms, b.send(510*ms), ok(5, 1, 455*ms))
	b.send(600 * ms)
	b.closedUntil(600*ms, second+rounding) // the first two, without latency, know it best
}

func TestSlowAnswerDoesNotDelayTheEndThatIsKnown(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(300*ms, b.send(0), ok(2, 1, second)) // closes between 1.0 and 1.3 s
	b.Report(310*ms, b.send(300*ms), ok(2, 0, 740*ms))
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	b.closedUntil(310*ms, 1050*ms+rounding) // between 1.04 and 1.05 s
}

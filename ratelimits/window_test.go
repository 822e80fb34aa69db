package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
	assert.Zero(t, at, "there is nothing to wait for")
	b.burst(0, 9)
	b.left(0, 0)
	assert.Equal(t, 10, b.InFlight())
}

func TestWindowThatIsClosedForAnotherReasonTakesNoPlace(t *testing.T) {
	t.Parallel()
	for name, close := range map[string]func(b *bucket){
		"held":            func(b *bucket) { b.Hold(0, second) },
		"probe in flight": func(b *bucket) { b.Hold(0, second); b.send(second) },
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

func TestUsedUpWindowOpensWhenItHasCertainlyClosedAndNotBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, received, after, opens time.Duration
	}{
		// Perhaps the server processed the request at the time received, and perhaps reset-after is too short by one
		// rounding.
		"no latency":     {0, 0, second, second + rounding},
		"latency":        {0, 200 * ms, second, 1200*ms + rounding},
		"350.6 s to go":  {60 * second, 60 * second, 360*second + 399*ms, 420*second + 400*ms},
		"already passed": {0, 200 * ms, 0, 200*ms + rounding},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.Report(c.received, b.send(c.sent), ok(1, 0, c.after))
			assert.Equal(t, c.opens-c.received, b.Predict(c.received, 0))
			b.closedUntil(c.received, c.opens)
			b.send(c.opens)
		})
	}
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
		"more are charged than a lowered limit allows": {
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
			assert.Equal(t, now, at, "the window is open for the next request")
		})
	}
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

// The server answers the requests of a burst in another order than it processes them. While its fixed window is open,
// no answer may allow more requests than the limit, or increase Remaining.
func TestAnswersInAnyOrderNeverGrantTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 12).Draw(t, "limit")
		const period = 10 * second
		var w ratelimits.Window
		first, granted := w.Take(0)
		require.True(t, granted)
		opened := time.Duration(rapid.IntRange(0, 300).Draw(t, "first processed")) * ms
		now := opened + time.Duration(rapid.IntRange(0, 300).Draw(t, "first answered"))*ms
		w.Report(now, first, ok(limit, limit-1, period))

		type answer struct {
			permit ratelimits.Permit
			r      ratelimits.Response
		}
		var flying []answer
		sent, processed, left := 1, now, w.Remaining(now)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * ms
			if rapid.Bool().Draw(t, "send") {
				if permit, granted := w.Take(now); granted {
					sent++
					processed = max(processed, now)
					flying = append(flying, answer{permit, ok(limit, limit-sent, opened+period-processed)})
				}
			} else if len(flying) > 0 {
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "answer")
				w.Report(now, flying[i].permit, flying[i].r)
				flying = slices.Delete(flying, i, i+1)
			}
			require.LessOrEqual(t, sent, limit, "requests in one window")
			require.LessOrEqual(t, w.Remaining(now), left, "Remaining must not rise")
			require.LessOrEqual(t, sent+w.Remaining(now), limit, "sent requests and Remaining exceed the limit")
			left = w.Remaining(now)
		}
		require.Equal(t, limit-sent, left, "no place is lost")
	})
}

// A request takes too long. After StopWaiting, the next request may be sent without a wait for the outcome of the slow
// request.
func TestStopWaiting(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *bucket){
		"unknown":            func(*bucket) {},
		"first after a hold": func(b *bucket) { b.exchange(0, ok(5, 4, time.Minute)); b.Hold(0, ms) },
		"recalled":           func(b *bucket) { b.Recall(5, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			prepare(b)
			slow := b.burst(second, 1)[0]
			slow = b.StopWaiting(b.StopWaiting(slow)) // a second call has no effect
			next := b.burst(second, 1)[0]             // the next request is sent first
			assert.Equal(t, 2, b.InFlight())
			b.Lost(second, slow)
			b.waitsForAnOutcome(second)
			b.Report(second, next, ok(5, 4, time.Minute))
			assert.Zero(t, b.InFlight())
			assert.LessOrEqual(t, b.Remaining(second), 4)
			b.send(second)
		})
	}
	t.Run("alone after a lost one", func(t *testing.T) { // the bucket may be leaky
		t.Parallel()
		b := known(t, 5, second)
		both := b.many(0, 2)
		b.Lost(0, both[1])
		b.waitsForAnOutcome(time.Minute)
		slow := b.StopWaiting(both[0])
		b.send(b.opens(time.Minute))
		b.Report(time.Minute, slow, ok(5, 4, second))
		assert.Equal(t, 1, b.InFlight())
	})
}

func TestAnswersOfOneWindowNarrowItsEnd(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second) // closes at 1 s, as the interval in each response allows
	b.Report(500*ms, b.send(200*ms), ok(5, 2, 760*ms))
	b.Report(560*ms, b.send(510*ms), ok(5, 1, 455*ms))
	b.send(600 * ms)
	b.closedUntil(600*ms, second+rounding) // as the two requests in fixed, which had no latency, have shown
}

func TestSlowAnswerDoesNotDelayTheEndThatIsKnown(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(300*ms, b.send(0), ok(2, 1, second)) // the window closes between 1.0 and 1.3 s
	b.Report(310*ms, b.send(300*ms), ok(2, 0, 740*ms))
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	b.closedUntil(310*ms, 1050*ms+rounding) // it closes between 1.04 and 1.05 s
}

package ratelimits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestNothingIsPredictedOfWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	assert.Zero(t, b.Predict(0, 1000))
	b.send(0)
	assert.Zero(t, b.Predict(0, 1000), "one in flight")

	unlimited := newBucket(t)
	unlimited.Unlimit()
	assert.Zero(t, unlimited.Predict(0, 1000))
}

func TestPredictionCountsTheQueueAhead(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(0, ok(5, 3, 10*second))
	b.exchange(0, ok(5, 2, 10*second))
	end := 10*second + rounding
	for ahead, want := range map[int]time.Duration{
		0: 0, 1: 0, // two are left
		2: end, 6: end, // the next window
		7: end + 10*second, 11: end + 10*second,
		12: end + 20*second, 502: end + 1000*second,
	} {
		assert.Equal(t, want, b.Predict(0, ahead), "%d ahead", ahead)
		assert.Equal(t, max(want-4*second, 0), b.Predict(4*second, ahead), "%d ahead, 4 s later", ahead)
	}
}

func TestPredictionKnowsTheHold(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.Hold(0, 3*second)
	assert.Equal(t, 3*second, b.Predict(0, 0))
	assert.Equal(t, second, b.Predict(2*second, 0))
	assert.Equal(t, 10*second+rounding, b.Predict(0, 4), "the window is the longer one")

	unknown := newBucket(t)
	unknown.Hold(0, 3*second)
	assert.Equal(t, 3*second, unknown.Predict(0, 0))
}

func TestPredictionIsNeverNegative(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	for _, p := range b.burst(0, 4) {
		b.Lost(100*ms, p)
	}
	for now := 100 * ms; now < time.Minute; now += 100 * ms {
		assert.GreaterOrEqual(t, b.Predict(now, 0), time.Duration(0))
	}
}

// What is predicted for the last of a queue is what it waits, when the server does what it has always done.
func TestPredictionComesTrue(t *testing.T) {
	t.Parallel()
	const queued = 40
	for name, rule := range rulesOfEveryKind(4, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.send(30) // by then it is known what kind it is
			s.until(s.now + 10*second)
			start, predicted := s.now, s.Predict(s.now, queued-1)
			s.send(queued)
			assert.InEpsilon(t, s.now-start, predicted, 0.25)
		})
	}
}

func TestResetIsWhenEverythingHasCertainlyComeBack(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	assert.Zero(t, b.Reset())
	b.Report(300*ms, b.send(100*ms), ok(5, 4, second))
	assert.Equal(t, 1300*ms+rounding, b.Reset())
	b.left(b.Reset(), 5)
	assert.LessOrEqual(t, b.Reset(), 1300*ms+rounding, "in the past")

	b.Hold(2*second, 5*second)
	assert.Equal(t, 7*second, b.Reset())
}

func TestResetIsThatOfTheLatestRequestWhateverTheKind(t *testing.T) {
	t.Parallel()
	for name, rule := range rulesOfEveryKind(5, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.send(40)
			s.finish()
			reset := s.Reset()
			require.Greater(t, reset, s.now)
			assert.LessOrEqual(t, reset, s.now+second+rounding)
			assert.Less(t, s.Remaining(reset-10*ms), 5)
			assert.Equal(t, 5, s.Remaining(reset))
		})
	}
}

func TestForgottenLostRequestsAreStillInTheReset(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	b.left(5*second, 5)
	for _, p := range b.many(5*second, 2) {
		b.Report(5500*ms, p, ratelimits.Response{})
	}
	assert.GreaterOrEqual(t, b.Reset(), 6500*ms)
}

// A window that has just been opened by a request in flight closes a period later.
func TestThoseBeyondAWindowThatOpensNowWaitForItsEnd(t *testing.T) {
	t.Parallel()
	recalled := newBucket(t)
	recalled.Recall(5, 10*second)
	reopened := fixed(t, 5, 10*second)
	for _, b := range []*bucket{recalled, reopened} {
		now := time.Hour
		b.many(now, 1)
		for ahead, want := range map[int]time.Duration{3: 0, 4: 10 * second, 8: 10 * second, 9: 20 * second} {
			assert.Equal(t, want, b.Predict(now, ahead), "%d ahead", ahead)
		}
	}
}

func TestPredictionOfAVeryLongWaitIsLong(t *testing.T) {
	t.Parallel()
	const aDay = 24 * time.Hour
	for name, b := range map[string]*bucket{
		"one a day":              known(t, 1, aDay),
		"one a day, fixed":       fixed(t, 2, aDay),
		"largest of all":         known(t, 1_000_000_000, aDay),
		"largest of all, in log": log(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := time.Duration(0)
			for _, ahead := range []int{0, 110_000, 1 << 31, math.MaxInt - 1, math.MaxInt} {
				wait := b.Predict(0, ahead)
				require.GreaterOrEqual(t, wait, before, "%d ahead", ahead)
				before = wait
			}
			require.Positive(t, before)
			require.Equal(t, b.Predict(0, 0), b.Predict(0, -5))
		})
	}
	assert.Greater(t, known(t, 1, aDay).Predict(0, 110_000), 100_000*aDay/4)
}

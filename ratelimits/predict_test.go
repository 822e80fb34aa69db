package ratelimits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
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

// What is predicted for the last of a queue is what it waits, when the server does what it has always done.
func TestPredictionComesTrue(t *testing.T) {
	t.Parallel()
	const queued = 40
	for name, rule := range rulesOfEveryKind(4, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.Send(30) // by then it is known what kind it is
			s.Until(s.Now + 10*second)
			start, predicted := s.Now, s.Predict(s.Now, queued-1)
			s.Send(queued)
			assert.InEpsilon(t, s.Now-start, predicted, 0.25)
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

func TestResetIsNotBeforeTheLatestOutcome(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Unlimit()
	b.exchange(time.Hour, bare)
	assert.Equal(t, time.Hour, b.Reset(), "it is in use, although nothing is charged")
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

// Nothing leaves during a hold, so what those ahead need comes on top of it.
func TestPredictionAddsTheQueueToTheHold(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(5, second)), steady(20*ms))
	s.Send(10)
	s.Finish()
	s.Hold(s.Now, 20*second)
	start, predicted := s.Now, s.Predict(s.Now, 99)
	s.Send(100)
	assert.InEpsilon(t, s.Now-start, predicted, 0.25)
}

// Of a leaky bucket no answer need have named a whole period.
func TestPredictionKnowsThePaceOfALeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t) // three of five, one comes back each 200 ms
	assert.InEpsilon(t, 20*second, b.Predict(0, 102), 0.05)
}

// A window that has just been spoken of as full is full until then, also for who predicts.
func TestPredictionIsNeverShorterThanNext(t *testing.T) {
	t.Parallel()
	for name, rule := range rulesOfEveryKind(5, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule.Faults = []discordsim.Fault{{Every: 4, Status: 502}}
			s := serve(t, rule, between(3, 5*ms, 80*ms))
			for range 300 {
				for !s.SendNow() {
					if at, certain := s.Next(s.Now); certain {
						require.GreaterOrEqual(t, s.Predict(s.Now, 0), at-s.Now, "at %v", s.Now)
					}
					s.Wait()
				}
			}
		})
	}
}

func TestPredictionForTheOneAfterThoseInFlightIsAPeriod(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 10*second)
	b.send(5 * second)
	assert.Equal(t, 5*second+rounding, b.Predict(5*second, 0))
	assert.Equal(t, 10*second, b.Predict(5*second, 1))
}

// Those that may belong to other buckets are not all counted in this one: it would refuse them.
func TestPredictionCountsNoMoreOfThoseInFlightThanTheLimit(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 10*second)
	now := 20 * second
	for range 10 {
		b.Adopt(now, now)
	}
	assert.Equal(t, 10*second, b.Predict(now, 0))
	assert.Equal(t, 20*second, b.Predict(now, 2))
}

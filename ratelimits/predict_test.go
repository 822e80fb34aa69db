package ratelimits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
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

func TestResetIsThatOfTheLatestRequestWhateverTheKind(t *testing.T) {
	t.Parallel()
	for name, rule := range rulesOfEveryKind(5, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.Send(40)
			s.Finish()
			reset := s.Reset()
			require.Greater(t, reset, s.Now)
			assert.LessOrEqual(t, reset, s.Now+second+rounding)
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

// When nothing is charged to a hidden limit, or one more may be tried, prediction says that a hundred may leave at
// once.
func TestPredictionKnowsTheHiddenLimitWhenNothingIsCharged(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Sliding(2, 2*second)}
	s := serve(t, rule, steady(20*ms))
	s.SendUntil(20 * second)
	s.Finish()
	s.Until(s.Now + 2100*ms) // all have come back
	start, predicted := s.Now, s.Predict(s.Now, 20)
	s.Send(21)
	assert.InEpsilon(t, s.Now-start, predicted, 0.5, "really %v", s.Now-start)
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

// What Next says cannot be later than what Predict says of the same request.
func TestPredictionAfterTheLimitWentDownWaitsForEnoughPlaces(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for i := range 6 {
		b.exchange(time.Duration(i)*second, ok(10, 9-i, 10*second)) // a log
	}
	b.exchange(6*second, ok(2, 0, 10*second))
	at, certain := b.Next(6 * second)
	require.True(t, certain)
	assert.GreaterOrEqual(t, b.Predict(6*second, 0), at-6*second)
	assert.GreaterOrEqual(t, b.Predict(6*second, 1), b.Predict(6*second, 0))
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

// The places of requests in flight come back a period after them, not with the one place that comes back next.
func TestPredictionCountsThoseInFlight(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Sliding(5, 10*second)), steady(20*ms))
	s.Send(30)
	s.Until(s.Now + 20*second)
	start := s.Now
	s.Send(1)
	s.Until(start + 9900*ms)
	s.Send(4) // in flight
	begin, predicted := s.Now, s.Predict(s.Now, 1)
	s.Send(2)
	assert.InEpsilon(t, s.Now-begin, predicted, 0.25, "really %v", s.Now-begin)
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

// Whoever can leave now, to try whether a hidden limit lets more through, has no wait.
func TestNoWaitIsPredictedForWhoTriesAHiddenLimit(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, ok(50, 49, time.Hour))
	b.exchange(0, ok(50, 48, time.Hour))
	b.exchange(0, shared(10*second))
	now := b.opens(0)
	b.exchange(now, ok(50, 46, time.Hour))
	b.exchange(now, ok(50, 45, time.Hour))
	at, certain := b.Next(now)
	require.True(t, certain)
	require.Equal(t, now, at)
	assert.Zero(t, b.Predict(now, 0))
	assert.Equal(t, ratelimits.ClassOK, b.WaitClass(now))
	b.send(now)
	assert.True(t, b.AwaitsProbe(now))
	assert.Positive(t, b.Predict(now, 0), "if it is refused")
}

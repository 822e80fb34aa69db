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
	assert.Zero(t, b.Predict(0, 1000), "nothing is predicted with one request in flight")

	unlimited := newBucket(t)
	unlimited.Unlimit()
	assert.Zero(t, unlimited.Predict(0, 1000))
}

// predicts asserts the predicted waits. The keys of want are the numbers of requests that are sent before.
func (b *bucket) predicts(now time.Duration, want map[int]time.Duration) {
	b.t.Helper()
	for ahead, wait := range want {
		assert.Equal(b.t, wait, b.Predict(now, ahead), "%d ahead", ahead)
	}
}

func TestPredictionCountsTheQueueAhead(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(0, ok(5, 3, 10*second))
	b.exchange(0, ok(5, 2, 10*second))
	const end = 10*second + rounding
	b.predicts(0, map[int]time.Duration{
		-5: 0, 0: 0, 1: 0, // two requests may be sent now
		2: end, 6: end, // these requests are sent in the next window
		7: end + 10*second, 11: end + 10*second,
		12: end + 20*second, 502: end + 1000*second,
	})
	b.predicts(4*second, map[int]time.Duration{1: 0, 2: end - 4*second, 7: end + 6*second})
}

func TestPredictionKnowsTheHold(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.Hold(0, 3*second)
	b.predicts(0, map[int]time.Duration{0: 3 * second, 4: 10*second + rounding}) // the window takes longer than the hold
	b.predicts(2*second, map[int]time.Duration{0: second})
	b.Hold(0, 20*second) // nothing is sent during a hold, so the requests ahead are sent after it
	assert.InEpsilon(t, 220*second, b.Predict(0, 100), 0.1)

	unknown := newBucket(t)
	unknown.Hold(0, 3*second)
	unknown.predicts(0, map[int]time.Duration{0: 3 * second})
}

func TestPredictionCountsRequestsInFlight(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 10*second)
	b.send(5 * second)
	b.predicts(5*second, map[int]time.Duration{0: 5*second + rounding, 1: 10 * second})

	b = known(t, 2, 10*second) // requests that may belong to other buckets count only up to the limit
	for range 10 {
		b.Adopt(20*second, 20*second)
	}
	b.predicts(20*second, map[int]time.Duration{0: 10 * second, 2: 20 * second})

	recalled := newBucket(t)
	recalled.Recall(5, 10*second)
	for _, b := range []*bucket{recalled, fixed(t, 5, 10*second)} { // the request in flight opens a new window
		b.send(time.Hour)
		b.predicts(time.Hour, map[int]time.Duration{3: 0, 4: 10 * second, 8: 10 * second, 9: 20 * second})
	}
}

// If the server does not change its behaviour, the last request of a queue must wait as long as predicted.
func TestPredictionComesTrue(t *testing.T) {
	t.Parallel()
	const queued = 40
	for name, rule := range rulesOfEveryKind(4, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.Send(30) // enough to prove the kind
			s.Until(s.Now + 10*second)
			start, predicted := s.Now, s.Predict(s.Now, queued-1)
			s.Send(queued)
			assert.InEpsilon(t, s.Now-start, predicted, 0.25)
		})
	}
}

// A prediction must not be shorter than the time that Next names, even if a response has just said that the window is
// full.
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

// No response of a leaky bucket has named a whole period. The prediction must follow from the pace at which places
// become free.
func TestPredictionKnowsThePaceOfALeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t) // three of five places are taken, and one place becomes free every 200 ms
	assert.InEpsilon(t, 20*second, b.Predict(0, 102), 0.05)
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
		before := time.Duration(0)
		for _, ahead := range []int{0, 110_000, 1 << 31, math.MaxInt - 1, math.MaxInt} {
			wait := b.Predict(0, ahead)
			require.GreaterOrEqual(t, wait, before, "%s, %d ahead", name, ahead)
			before = wait
		}
		require.Positive(t, before, name)
	}
	assert.Greater(t, known(t, 1, aDay).Predict(0, 110_000), 100_000*aDay/4)
}

func TestResetIsWhenEverythingHasCertainlyComeBack(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	assert.Zero(t, b.Reset())
	b.Report(300*ms, b.send(100*ms), ok(5, 4, second))
	assert.Equal(t, 1300*ms+rounding, b.Reset())
	b.left(b.Reset(), 5)
	assert.LessOrEqual(t, b.Reset(), 1300*ms+rounding, "the reset may lie in the past")
	b.Hold(2*second, 5*second)
	assert.Equal(t, 7*second, b.Reset())

	b = newBucket(t)
	b.Unlimit()
	b.exchange(time.Hour, bare)
	assert.Equal(t, time.Hour, b.Reset(), "the latest outcome counts as use, although nothing is charged")
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// In these tests another Window continues: from a State, or in another process from the written form of the first
// window.

func TestWindowGoesOnFromAState(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(second, b.send(0), ok(3, 2, 5*second))
	b.send(2 * second)
	state := b.State(2 * second)
	assert.Equal(t, 3, state.Limit)
	assert.Equal(t, 1, state.Used, "a request in flight is not included")
	assert.InDelta(t, 4*second, state.Reset, float64(2*ms))
	assert.Equal(t, 5*second, state.Period)

	other := from(t, 100*second, state)
	other.Adopt(100*second, 100*second)
	other.send(100 * second)
	other.closedUntil(100*second, 100*second+state.Reset) // three requests are charged
	assert.Zero(t, b.State(10*second).Used, "all places are free")
}

// from returns a bucket that continues from a state.
func from(t *testing.T, now time.Duration, s ratelimits.State) *bucket {
	return &bucket{ratelimits.NewWindow(now, s), t}
}

func TestStateCarriesAHold(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.HoldFor(0, time.Minute, ratelimits.ClassShared)
	other := from(t, 0, b.State(20*second))
	assert.Equal(t, 40*second, other.HoldWait(0))
	assert.Equal(t, ratelimits.ClassShared, other.HoldClass(0))
	assert.True(t, other.Probing())
}

func TestStateOfAnUnknownWindowSaysHowManyWereNeverAnswered(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Lost(1, b.send(0))
	b.Report(3, b.send(2), broken)
	assert.Equal(t, ratelimits.State{Used: 2}, b.State(4))
}

func TestStateWithoutLimitOrOfAWindowThatIsOverLetsGo(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Unlimit()
	from(t, 0, b.State(0)).many(0, 2)
	over := ratelimits.State{Limit: 1, Used: 1, Period: second} // Reset is 0: the used place is free again
	from(t, 0, over).burst(0, 1)
}

// If the response to a request named no limits, the request's place may become free later than expected. So one request
// must be sent first, also after a State.
func TestStateOfAWindowThatDoesNotKnowWhenAPlaceComesBackLetsOneGoFirst(t *testing.T) {
	t.Parallel()
	b := known(t, 3, second)
	b.exchange(0, broken)
	assert.True(t, b.State(10*ms).Probing)
	assert.True(t, b.State(time.Minute).Probing)
}

// Requests that were answered elsewhere may have been counted after the request of a new response. So they must stay
// charged, even if that response counts fewer requests.
func TestAnswerTellsNothingOfRequestsThatWereAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	b := from(t, second, ratelimits.State{Limit: 5, Used: 3, Reset: 10 * second, Period: 10 * second})
	b.Report(second+10*ms, b.Adopt(second, second-10*ms), ok(5, 3, 10*second))
	assert.LessOrEqual(t, b.Remaining(second+10*ms), 1)

	var left ratelimits.Window
	sent, _ := left.Take(0)
	left.Lost(10*ms, left.Adopt(0, 0))
	b = newBucket(t)
	b.Report(20*ms, b.AdoptFrom(10*ms, &left, sent), ok(5, 4, 10*second))
	b.left(20*ms, 3) // the server may have counted the lost request later
}

// A recalled limit is only a guess. A window that continues from the State must still treat it as a guess.
func TestRecalledLimitIsStillAGuessInAState(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Recall(5, second)
	require.False(t, b.Known())
	other := from(t, 0, b.State(0))
	assert.False(t, other.Known())
	other.exchange(10*ms, ok(50, 49, second))
	assert.Equal(t, 50, other.Limit(), "the first answer replaces a recalled limit")
}

// written returns the bucket after it was written and read, as by another process.
func (b *bucket) written() *bucket {
	b.t.Helper()
	found, rest, err := ratelimits.DecodeWindow(b.Append(nil))
	require.NoError(b.t, err)
	require.Empty(b.t, rest)
	return &bucket{found, b.t}
}

// used returns a bucket of five requests per 10 s. One hour after the origin, n requests were sent and answered, one in
// each millisecond. In addition, inFlight requests are in flight.
func used(t *testing.T, n, inFlight int) (b *bucket, now time.Duration) {
	b, now = newBucket(t), time.Hour
	for i := range n {
		b.Report(now+ms, b.send(now), ok(5, 4-i, 10*second))
		now += ms
	}
	b.many(now, inFlight)
	return b, now
}

func TestRestOfAWindowIsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	before, now := used(t, 3, 0)
	b := before.written()
	b.Resume(now, true)
	b.left(now, 2)
	assert.Equal(t, before.Reset(), b.Reset())
	assert.False(t, b.Probing())
}

func TestRequestsInFlightAtTheEndOfAProcessAreLost(t *testing.T) {
	t.Parallel()
	before, now := used(t, 1, 3)
	b := before.written()
	now += second
	b.Resume(now, true)
	assert.Zero(t, b.InFlight())
	b.left(now, 1)
	b.left(now+9500*ms, 2) // the first charge has expired, but the server may have counted the others as late as possible
	b.left(now+10500*ms, 5)
}

func TestWindowThatMayHaveBeenUsedSinceItWasWrittenIsFullForAPeriod(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		for _, inFlight := range []int{0, 5 - n} {
			for _, ago := range []time.Duration{0, 5 * second, time.Minute} {
				before, now := used(t, n, inFlight)
				b := before.written()
				now += ago
				b.Resume(now, false)
				at := b.opens(now)
				assert.Greater(t, at, now+10*second, "%d of 5, and %d in flight, %v ago", n, inFlight, ago)
				assert.LessOrEqual(t, at, now+10*second+10*ms)
				b.left(at, 5)
				if n > 1 && inFlight == 0 {
					b.burst(at, 5)
				} else { // it may be a leaky bucket that is not empty, which two responses rule out
					b.burst(at, 1)
				}
			}
		}
	}
}

// A log that names its next place names the whole period only to a request that finds the log empty. The last such
// request may have been long ago.
func TestWindowThatMayBeALogIsFullForThePeriodThatItOnceNamed(t *testing.T) {
	t.Parallel()
	before, now := known(t, 5, second), time.Duration(0)
	for range 4 { // each time, a request of another client comes first
		now += 1600 * ms
		before.exchange(now, ok(5, 3, 500*ms))
	}
	require.Equal(t, 500*ms, before.Period())
	b := before.written()
	b.Resume(now, false)
	assert.GreaterOrEqual(t, b.opens(now), now+second)
}

func TestWindowOfAKnownKindIsNotProbedAfterAPeriod(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second).written()
	b.Resume(4*second, false)
	b.burst(14*second+2*rounding, 5)
}

func TestWindowThatKnowsNothingIsResumedAsOneThatKnowsNothing(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{true, false} {
		before := newBucket(t)
		before.send(time.Hour)
		b := before.written()
		b.Resume(time.Hour, exact)
		b.burst(time.Hour, 1)
	}
}

// Just before it ended, the other process may have sent as many requests as a hidden limit accepts. So the limit must
// count as used up.
func TestHiddenLimitIsUsedUpForTheNextProcess(t *testing.T) {
	t.Parallel()
	before := known(t, 20, second)
	for i := range 4 {
		before.exchange(0, ok(20, 18-i, second))
	}
	before.exchange(0, shared(10*second)) // after five accepted requests
	now := 10*second + rounding
	for i := range 4 {
		before.exchange(now, ok(20, 19-i, second))
	}
	b := before.written()
	b.Resume(18*second, false)
	now = 23 * second // the places of the four requests would be free
	b.exchange(now, ok(20, 19, second))
	b.burst(now, 1)
}

// A reset that fits no kind may be right all the same. So the next process must wait for it.
func TestResetThatNothingExplainsIsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	before := known(t, 5, 10*second)
	before.exchange(second, ok(5, 3, time.Minute))
	require.Equal(t, 10*second, before.Period())
	b := before.written()
	b.Resume(2*second, false)
	assert.GreaterOrEqual(t, b.opens(2*second), time.Minute)
}

func TestRequestThatIsNotSentAfterARestartSaysNothingOfThoseThatAreLost(t *testing.T) {
	t.Parallel()
	before := known(t, 5, 10*second)
	before.exchange(second, ok(5, 3, 10*second)) // a sliding log may have given this answer
	before.many(2*second, 2)
	b := before.written()
	b.Resume(2*second, true)
	b.Return(2*second, b.send(2*second))
	b.left(2*second, 1)
}

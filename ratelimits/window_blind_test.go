package ratelimits_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestCancelledRequestGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	permits := b.burst(0, 4)
	for i, p := range permits {
		b.Return(second, p)
		b.left(second, i+1)
	}
	assert.Zero(t, b.InFlight())
	b.burst(second, 4)
}

func TestLostRequestStaysChargedAsLongAsTheServerMayRememberIt(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second)
	b.Lost(500*ms, b.send(200*ms))
	assert.Zero(t, b.InFlight())
	b.left(500*ms, 2)
	b.burst(500*ms, 2)
	b.closedUntil(500*ms, firstEnd)
	b.left(firstEnd, 3) // the two that are still in flight
}

// Where the lost request may have been processed after all that is known, a leaky bucket takes longer to forget it, and
// those that are in flight come on top. One that goes alone will tell.
func TestAfterALostRequestThatALeakyBucketMayHaveCountedOneGoesAlone(t *testing.T) {
	t.Parallel()
	b := newBucket(t) // 2 per 2 s
	b.Report(400*ms, b.send(0), ok(2, 1, second))
	b.Lost(650*ms, b.send(400*ms))
	p := b.burst(1402*ms, 1)[0]
	b.waitsForAnOutcome(1652 * ms)
	b.Report(1800*ms, p, ok(2, 0, 1600*ms))
	b.left(1800*ms, 0)
}

func TestAnswerWithoutLimitsChangesNothingThatIsKnown(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]ratelimits.Response{"5xx": broken, "success": bare} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fixed(t, 5, second)
			reset := b.Reset()
			b.exchange(500*ms, answer)
			assert.Equal(t, 5, b.Limit())
			assert.Equal(t, second, b.Period())
			assert.Equal(t, ratelimits.KindFixed, b.Kind())
			assert.Equal(t, reset, b.Reset())
			b.left(500*ms, 2) // its own place: the server may have counted it
			b.left(firstEnd, 5)
		})
	}
}

func TestWindowWhoseAnswersCarryNoLimitsHeals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"broken", "no limits", "lost"} {
		for kind, start := range map[string]func(testing.TB, int, time.Duration) *bucket{"fixed": fixed, "unproven": known} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := start(t, 5, second)
				now := 5*second + 50*ms // in a new window
				for _, p := range b.burst(5*second, 5) {
					withoutLimits[name](b, now, p)
				}
				b.left(now, 0)
				at := b.opens(now)
				assert.InDelta(t, second, at-now, float64(10*ms), "a period after the last of them")
				b.Report(at, b.burst(at, 1)[0], ok(5, 4, second))
				b.burst(at, 4)
			})
		}
	}
}

// One late outcome of a window that has long passed is no reason to wait for anything.
func TestOutcomeAfterAgesIsHarmless(t *testing.T) {
	t.Parallel()
	outcomes := maps.Clone(withoutLimits)
	outcomes["answer"] = func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, ok(5, 2, 800*ms)) }
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fixed(t, 5, second)
			p := b.send(200 * ms)
			b.left(time.Hour, 4)
			outcome(b, time.Hour, p)
			assert.Zero(t, b.InFlight())
			assert.Equal(t, time.Hour, b.opens(time.Hour))
			b.exchange(time.Hour+2*second, ok(5, 4, second)) // the window after it at the latest is an ordinary one
			b.left(time.Hour+4*second, 5)
			b.burst(time.Hour+4*second, 5)
		})
	}
}

// A server that was broken for a while may have counted what it could not answer, until an answer tells how many it
// counts.
func TestAnswerThatCountsLessEndsTheChargeOfWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	for range 3 {
		b.exchange(100*ms, broken)
	}
	b.left(100*ms, 1)
	b.exchange(200*ms, ok(5, 3, 9800*ms))
	b.left(200*ms, 3)
}

// What a server has counted once is charged, whatever it says later of fewer.
func TestAnswerThatCountsLessThanAnEarlierOneTakesNothingBack(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(100*ms, ok(5, 2, 9900*ms)) // others are there
	b.exchange(200*ms, ok(5, 4, 9800*ms))
	b.left(200*ms, 1)
}

// A request of which no answer has told anything comes back last of a leaky bucket that has counted it, however short
// the reset-after was that has been named so far.
func TestRequestWithoutLimitsComesBackLastOfALeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t) // three, which come back at 200, 400 and 600 ms
	b.exchange(ms, bare)
	require.Equal(t, 600*ms, b.Period())
	b.left(700*ms, 4)

	b.exchange(10*second, bare) // of an empty one a slot later, as one request cannot have filled more of it
	b.left(10*second, 4)
	b.left(10*second+210*ms, 5)

	b = leaky(t)
	for _, p := range b.burst(10*second, 5) { // however many are lost, it is empty after a period
		b.Lost(10*second, p)
	}
	b.left(11*second+10*ms, 5)
}

// What was answered without limits before any limit was known is no reason to wait.
func TestErrorsBeforeTheFirstLimitsCostNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for range 100 {
		b.exchange(0, broken)
	}
	for i := range 3 { // a bucket of five that gives one back each second
		b.exchange(0, ok(5, 4-i, time.Duration(i+1)*second))
	}
	b.left(0, 2)
	require.LessOrEqual(t, b.Reset(), 5*second)
	require.LessOrEqual(t, b.State(0).Reset, 5*second)
}

func TestAnswerSaysNothingOfWhatWasNotAnsweredAfterItWasSent(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	permits := b.many(100*ms, 2)
	b.Report(150*ms, permits[0], broken) // may have been counted after the other one
	b.Report(200*ms, permits[1], ok(5, 3, 9900*ms))
	b.left(200*ms, 2)
}

// What a refused request has found counted stays known, whichever of the requests that nobody has heard of are taken
// off for it.
func TestRefusalOfASubLimitTellsHowManyOfTheLostAreCounted(t *testing.T) {
	t.Parallel()
	for lost := range 4 {
		b := leaky(t)
		b.exchange(10*second, ok(5, 4, 200*ms))
		for range 3 {
			b.Lost(10*second, b.send(10*second))
		}
		b.exchange(10*second, ratelimits.Response{
			Status: 429, Class: ratelimits.ClassSubLimit, Limited: true, Limit: 5, Remaining: 4 - lost,
			ResetAfter: time.Duration(1+lost) * 200 * ms, HasRetryAfter: true, RetryAfter: time.Minute,
		})
		b.left(10*second, 4-lost)
	}
}

// A count that earlier requests seemed to explain may have had somebody else's in it. What is lost is not taken off it
// before a response shows that it was not counted.
func TestLostRequestIsNotTakenOffWhatTheServerHasCounted(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for i := range 3 {
		b.exchange(0, ok(5, 4-i, second))
	}
	b.Report(second, b.send(900*ms), ok(5, 3, second)) // in the next window: one of the two is somebody else's
	now := second + 10*ms
	p := b.burst(now, 3)
	b.Lost(now+ms, p[0])
	b.left(now+ms, 0)
}

// What a slow response has counted beyond what was still charged when it came may be a request of ours that nobody has
// answered, and not somebody else's. So the next such request does not make room for it.
func TestSomebodyElsesRequestIsNoMoreThanAGuessBesideOneThatNobodyAnswered(t *testing.T) {
	t.Parallel()
	b := log(t)
	b.Report(2002*ms, b.send(2000*ms), broken) // counted at 2001 ms
	slow := b.send(3000 * ms)                  // counted a moment later, when the first one still is
	b.Report(3500*ms, slow, ok(5, 3, second))
	b.exchange(3600*ms, broken)
	b.exchange(3600*ms, ok(5, 2, second)) // the slow one, and both of these
	b.left(4550*ms, 3)
}

// A leaky bucket is fuller by everything that it has counted, also by what an error without limits has answered. So one
// goes when nothing else is charged. A success without limits has been counted once at most, and the ledger has it: one
// goes first, but not alone.
func TestAfterAnErrorWithoutLimitsOneGoesAloneAndAfterASuccessFirst(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 125*ms)
	b.exchange(0, broken)
	b.exchange(127*ms, broken)
	_, granted := b.Take(128 * ms)
	assert.False(t, granted, "the second error may have been counted")
	b.send(253 * ms)

	b = known(t, 5, 200*ms)
	b.exchange(100*ms, bare)
	b.exchange(150*ms, ok(5, 2, 450*ms)) // of a leaky bucket, perhaps
	b.burst(560*ms, 1)                   // only the last is charged
}

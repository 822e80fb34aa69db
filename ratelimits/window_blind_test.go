package ratelimits_test

import (
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

func TestCancelledRequestGivesItsPlaceBackAlsoAfterTheWindow(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 2)
	b.left(1100*ms, 3)
	for _, p := range carried {
		b.Return(1100*ms, p)
	}
	b.left(1100*ms, 5)
}

func TestCancelledFirstRequestOfAnUnknownBucketLetsTheNextOneGo(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for range 10 {
		p := b.burst(0, 1)[0]
		b.waitsForAnOutcome(0)
		b.Return(0, p)
		assert.Zero(t, b.InFlight())
	}
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

// It may have been processed in the new window as well, and then nobody will ever say so.
func TestLostRequestThatWasCarriedOverStaysChargedInTheNewWindow(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 1)
	b.Lost(1100*ms, carried[0])
	b.left(1100*ms, 4)
	b.exchange(1200*ms, ok(5, 3, second))
	b.left(1200*ms, 3)
}

func TestLostRequestStaysChargedWhereTheWindowMayHaveClosedBeforeIt(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(200*ms, b.send(0), ok(5, 4, second)) // closes between 1.0 and 1.2 s
	b.Report(400*ms, b.send(200*ms), ok(5, 3, 820*ms))
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	b.Lost(1100*ms, b.send(900*ms))
	b.left(1200*ms+rounding, 4)
}

// A sliding bucket gives it back a period after it was processed, which was at the latest when it was given up.
func TestLostRequestOfUnprovenKindStaysChargedForAWholePeriod(t *testing.T) {
	t.Parallel()
	b := known(t, 2, second)
	b.Lost(900*ms, b.send(0))
	b.closedUntil(900*ms, second+rounding) // what was answered is back
	b.exchange(second+rounding, ok(2, 0, second))
	b.closedUntil(second+rounding, 2*second+2*rounding) // one is to go alone
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
	for name, outcome := range map[string]func(b *bucket, now time.Duration, p ratelimits.Permit){
		"5xx":       func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, broken) },
		"no limits": func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, bare) },
		"lost":      func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Lost(now, p) },
	} {
		for kind, make := range map[string]func(testing.TB, int, time.Duration) *bucket{"fixed": fixed, "unproven": known} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := make(t, 5, second)
				now := 5 * second // a new window
				for _, p := range b.burst(now, 5) {
					outcome(b, now+50*ms, p)
				}
				now += 50 * ms
				b.left(now, 0)
				at := b.opens(now)
				assert.InDelta(t, second, at-now, float64(10*ms), "a period after the last of them")
				probe := b.burst(at, 1)[0]
				b.Report(at, probe, ok(5, 4, second))
				b.burst(at, 4)
			})
		}
	}
}

func TestBucketThatIsOnlyEverAnsweredWithoutLimitsNeverStops(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	now, sent := time.Duration(0), 0
	for now < 60*second {
		now = b.opens(now)
		b.exchange(now, broken)
		sent++
	}
	assert.GreaterOrEqual(t, sent, 50, "one for each period at least")
}

// One late outcome of a window that has long passed is no reason to wait for anything.
func TestOutcomeAfterAgesIsHarmless(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]func(b *bucket, p ratelimits.Permit){
		"answer":     func(b *bucket, p ratelimits.Permit) { b.Report(time.Hour, p, ok(5, 2, 800*ms)) },
		"lost":       func(b *bucket, p ratelimits.Permit) { b.Lost(time.Hour, p) },
		"given back": func(b *bucket, p ratelimits.Permit) { b.Return(time.Hour, p) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fixed(t, 5, second)
			p := b.send(200 * ms)
			b.left(time.Hour, 4)
			outcome(b, p)
			assert.Zero(t, b.InFlight())
			at := b.opens(time.Hour)
			assert.Equal(t, time.Hour, at)
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

func TestAnswerSaysNothingOfWhatWasNotAnsweredAfterItWasSent(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	permits := b.many(100*ms, 2)
	b.Report(150*ms, permits[0], broken) // may have been counted after the other one
	b.Report(200*ms, permits[1], ok(5, 3, 9900*ms))
	b.left(200*ms, 2)
}

// What a server has counted once is charged, whatever it says later of fewer.
func TestAnswerThatCountsLessThanAnEarlierOneTakesNothingBack(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(100*ms, ok(5, 2, 9900*ms)) // others are there
	b.exchange(200*ms, ok(5, 4, 9800*ms))
	b.left(200*ms, 1)
}

// Nor does an answer that was overtaken, which knows nothing of what was counted after it.
func TestAnswerThatWasOvertakenTakesNothingBack(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second)
	permits := b.many(20*second, 3)
	b.Report(20010*ms, permits[1], ok(5, 2, 10*second)) // the other one in flight, it seems
	b.Report(20020*ms, permits[0], ok(5, 4, 10*second))
	b.Return(20030*ms, permits[2]) // but that was never sent
	b.left(20030*ms, 2)
}

// A request of which no answer has told anything takes its slot behind all others, if a leaky bucket has counted it,
// however short the reset-after was that has been named so far.
func TestRequestWithoutLimitsComesBackLastOfALeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t) // three, which come back at 200, 400 and 600 ms
	b.exchange(ms, bare)
	require.Equal(t, 600*ms, b.Period())
	b.left(700*ms, 4)
}

// An empty one has forgotten it a slot later, as one request cannot have filled more of it.
func TestRequestWithoutLimitsComesBackAfterASlotOfAnEmptyLeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t)
	b.exchange(10*second, bare)
	b.left(10*second, 4)
	b.left(10*second+210*ms, 5)
}

// However many are lost, a leaky bucket is empty after a period.
func TestLeakyBucketIsEmptyAPeriodAfterAllWasLost(t *testing.T) {
	t.Parallel()
	b := leaky(t)
	for _, p := range b.burst(10*second, 5) {
		b.Lost(10*second, p)
	}
	b.left(11*second+10*ms, 5)
}

// The slots of a leaky bucket that was asked by many while it was broken are not counted twice.
func TestLeakyBucketIsFullSoonAlthoughItWasBrokenAHundredTimesBefore(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for range 100 {
		b.exchange(0, broken)
	}
	for i := range 3 { // a bucket of five that gives one back each second
		b.exchange(0, ok(5, 4-i, time.Duration(i+1)*second))
	}
	require.LessOrEqual(t, b.Reset(), 5*second)
	require.LessOrEqual(t, b.State(0).Reset, 5*second)
	b.send(0)
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

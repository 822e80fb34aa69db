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
	b.left(firstEnd, 3) // two requests are still in flight
}

// A lost request may have been the last one that a leaky bucket counted. A leaky bucket forgets it later than other
// kinds do, and even later if more requests are in flight. So the next request must be sent alone, to learn the count.
func TestAfterALostRequestThatALeakyBucketMayHaveCountedOneGoesAlone(t *testing.T) {
	t.Parallel()
	b := newBucket(t) // this may be a leaky bucket of 2 requests per 2 s
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
			b.left(500*ms, 2) // this request is also charged, because the server may have counted it
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
				assert.InDelta(t, second, at-now, float64(10*ms), "one period after the last outcome")
				b.Report(at, b.burst(at, 1)[0], ok(5, 4, second))
				b.burst(at, 4)
			})
		}
	}
}

// The outcome of a request comes long after the request's window has closed. The outcome must not delay any other
// request.
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
			b.exchange(time.Hour+2*second, ok(5, 4, second)) // from the next window on, everything is as usual
			b.left(time.Hour+4*second, 5)
			b.burst(time.Hour+4*second, 5)
		})
	}
}

// A server may count a request although it answers with an error. Such a request must stay charged until a response
// names a lower count.
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

// If the server has named a count, as many requests as it names must stay charged, even if a later response names a
// lower count.
func TestAnswerThatCountsLessThanAnEarlierOneTakesNothingBack(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(100*ms, ok(5, 2, 9900*ms)) // other clients use the bucket
	b.exchange(200*ms, ok(5, 4, 9800*ms))
	b.left(200*ms, 1)
}

// A leaky bucket may have counted a request whose response named no limits. The request must stay charged as long as
// such a bucket may count it, even if every reset-after so far was shorter.
func TestRequestWithoutLimitsComesBackLastOfALeakyBucket(t *testing.T) {
	t.Parallel()
	b := leaky(t) // three requests, whose places become free at 200, 400 and 600 ms
	b.exchange(ms, bare)
	require.Equal(t, 600*ms, b.Period())
	b.left(700*ms, 4)

	b.exchange(10*second, bare) // the bucket was empty, so the request fills one slot, which is free again after 200 ms
	b.left(10*second, 4)
	b.left(10*second+210*ms, 5)

	b = leaky(t)
	for _, p := range b.burst(10*second, 5) { // even if all of these are lost, the bucket is empty after a period
		b.Lost(10*second, p)
	}
	b.left(11*second+10*ms, 5)
}

// If errors came before any response had named a limit, they must not delay requests.
func TestErrorsBeforeTheFirstLimitsCostNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for range 100 {
		b.exchange(0, broken)
	}
	for i := range 3 { // a leaky bucket of five: one place becomes free each second
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
	b.Report(150*ms, permits[0], broken) // the server may have counted it after the other request
	b.Report(200*ms, permits[1], ok(5, 3, 9900*ms))
	b.left(200*ms, 2)
}

// The 429 of a sub-limit names how many requests the bucket counts. As many requests must stay charged. Lost requests
// above that number are removed, because the bucket has not counted them.
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

// Earlier own requests seem to explain a count, but the count may include a request of another client. So a lost
// request must stay charged until a response shows that the server has not counted it.
func TestLostRequestIsNotTakenOffWhatTheServerHasCounted(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for i := range 3 {
		b.exchange(0, ok(5, 4-i, second))
	}
	b.Report(second, b.send(900*ms), ok(5, 3, second)) // in the next window: another client sent one of the two requests
	now := second + 10*ms
	p := b.burst(now, 3)
	b.Lost(now+ms, p[0])
	b.left(now+ms, 0)
}

// A slow response may count an unanswered own request whose charge has expired in the meantime. In that case the window
// assumes that another client has sent the request. A later response with a lower count must end this assumption, and
// not the charge of a newer unanswered request.
func TestSomebodyElsesRequestIsNoMoreThanAGuessBesideOneThatNobodyAnswered(t *testing.T) {
	t.Parallel()
	b := log(t)
	b.Report(2002*ms, b.send(2000*ms), broken) // the server counts it at 2001 ms
	slow := b.send(3000 * ms)                  // counted at a moment at which the server still counts the first request
	b.Report(3500*ms, slow, ok(5, 3, second))
	b.exchange(3600*ms, broken)
	b.exchange(3600*ms, ok(5, 2, second)) // the server counts the slow request, the previous one and this one
	b.left(4550*ms, 3)
}

// A leaky bucket may have counted a request although the response was an error without limits. After such errors, the
// next request must be sent alone, and only when no other request is charged. A success without limits is charged as
// one request. After such a success, one request must be sent before the rest, even while other requests are charged.
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
	b.exchange(150*ms, ok(5, 2, 450*ms)) // perhaps from a leaky bucket
	b.burst(560*ms, 1)                   // only the last request is still charged
}

package ratelimits_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// The buckets of these tests are proven to have fixed windows of five requests per second. The first window closes at 1
// s, and has certainly closed at firstEnd.
const firstEnd = second + rounding

// rolled returns a bucket with fixed windows at the end of its first window. The requests of carried were sent at 950
// ms and are in flight.
func rolled(t *testing.T, inFlight int) (b *bucket, carried []ratelimits.Permit) {
	t.Helper()
	b = fixed(t, 5, second)
	carried = b.many(950*ms, inFlight)
	b.left(firstEnd-1, 3-inFlight)
	return b, carried
}

func TestRequestInFlightIsChargedToTheNextWindowToo(t *testing.T) {
	t.Parallel()
	b, _ := rolled(t, 3)
	b.left(firstEnd, 2)
	b.burst(firstEnd, 2)
}

func TestChargeCarriedOverIsGivenBackUnlessItFellIntoTheNewWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer ratelimits.Response
		left   int
	}{
		"in the old window":             {ok(5, 2, 40*ms), 4}, // processed at 960 ms
		"in the old window, the last":   {ok(5, 0, 40*ms), 4},
		"in the new window, at 1110 ms": {ok(5, 3, 990*ms), 3},
		"in either window":              {ok(5, 3, second), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, carried := rolled(t, 1)
			b.exchange(1100*ms, ok(5, 4, second)) // the new window closes at 2.1 s
			b.left(1100*ms, 3)
			reset := b.Reset()
			b.Report(1120*ms, carried[0], c.answer)
			b.left(1120*ms, c.left)
			assert.Equal(t, reset, b.Reset())
			b.burst(1120*ms, c.left)
		})
	}
}

func TestMovedRequestIsChargedWhereItMovedTo(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.left(50*ms, 4)
	moved := b.Adopt(50*ms, 20*ms)
	assert.Equal(t, 20*ms, moved.Sent())
	assert.Equal(t, 1, b.InFlight())
	b.left(50*ms, 3)
	b.Report(60*ms, moved, ok(5, 3, 10*second-30*ms))
	assert.Zero(t, b.InFlight())
	b.left(60*ms, 3)
}

// Requests of several routes turn out to belong to one bucket. The first answer is the answer to an adopted request.
// The requests that were answered before this request also count.
func TestFirstAnswerOfABucketMayBeThatOfAMovedRequest(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	early, late := b.Adopt(100*ms, 0), b.Adopt(100*ms, 10*ms)
	b.waitsForAnOutcome(100 * ms) // in an unknown bucket one request is sent at a time
	b.Report(110*ms, late, ok(5, 3, 10*second))
	b.left(110*ms, 2) // the server may have counted the other request later
	b.Report(120*ms, early, ok(5, 4, 10*second))
	b.left(120*ms, 3) // both answers have named their counts
}

// Reports may come in another order than the answers. A late report must not change what newer answers have shown.
func TestLateReportTurnsNothingBack(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Unlimit()
	first, then := b.send(second), b.send(2*second)
	b.Report(5*second, then, bare)
	b.Report(4*second, first, bare)
	assert.Equal(t, 5*second, b.Reset())

	b = known(t, 10, second) // the same for a lowered limit: answers to requests that were sent earlier do not raise it
	older, between, latest := b.send(100*ms), b.send(250*ms), b.send(290*ms)
	b.Report(400*ms, latest, ok(5, 1, second))
	b.Report(200*ms, older, ok(4, 1, second))
	b.Report(300*ms, between, ok(10, 1, second))
	assert.Equal(t, 4, b.Limit())
	b.left(5*second, 4)
}

func TestRequestThatIsNotInFlightIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Hold(0, second)
	b.send(second)
	b.Return(second, ratelimits.Permit{}) // this permit belongs to no request
	b.send(second)
}

func TestAnswerMayShowThatAWindowClosedEarlierThanWasCertain(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(400*ms, b.send(0), ok(5, 4, second)) // closes between 1.0 and 1.4 s
	b.Report(500*ms, b.send(400*ms), ok(5, 3, 650*ms))
	require.Equal(t, ratelimits.KindFixed, b.Kind()) // closes between 1.05 and 1.15 s
	b.exchange(1100*ms, ok(5, 4, second))            // this request must have been the first of a new window
	assert.Equal(t, ratelimits.KindFixed, b.Kind())
	b.left(1100*ms, 4)
	b.burst(1100*ms, 4)
	b.closedUntil(1100*ms, 2100*ms+rounding)
}

func TestRequestOfAnUnknownWindowIsForgottenWhenItsOwnResetHasPassed(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 1)
	b.Report(2*second, carried[0], ok(5, 4, 50*ms)) // the window that counted it closed between 1.00 and 2.05 s
	b.left(2*second, 4)
	b.left(2050*ms, 4)
	b.left(2050*ms+rounding, 5)
}

// A request may have been the last one of a window that has certainly closed. The request must not extend that window.
func TestRequestOfAnUnknownWindowDoesNotBringBackWhatTheOneBeforeHadCounted(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second)
	b.exchange(500*ms, ok(5, 2, 500*ms))
	slow := b.send(950 * ms)
	b.exchange(960*ms, ok(5, 1, 40*ms))
	b.Report(2*second, slow, ok(5, 4, 50*ms))
	b.left(2*second, 4)
}

func TestRequestThatMayBelongToTheWindowAfterStaysChargedInIt(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, second)
	slow := b.Adopt(100*ms, 0)
	b.exchange(1100*ms, ok(5, 4, second))
	b.Report(2100*ms, slow, ok(5, 4, second)) // it opened the first window, or the one that begins now
	b.left(2100*ms, 3)
	b.left(2100*ms+rounding, 4)
	b.left(3100*ms+rounding, 5)
}

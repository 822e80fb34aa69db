package ratelimits_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// Stories about the end of a window, told of a proven fixed bucket of five requests per second. Its first window closes
// at
// 1 s, which is certain at this time:
const firstEnd = second + rounding

// rolled is such a bucket whose second window has begun while some requests are still in flight, sent at 950 ms.
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

func TestChargeCarriedOverIsGivenBackWhenItFellIntoTheOldWindow(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 2)
	b.exchange(1100*ms, ok(5, 4, second)) // the new window closes at 2.1 s
	b.left(1100*ms, 2)
	for i, p := range carried {
		b.Report(1110*ms, p, ok(5, 2-i, 40*ms)) // processed at 960 ms
		b.left(1110*ms, 3+i)
	}
}

func TestChargeCarriedOverStaysWhenItFellIntoTheNewWindow(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 2)
	b.exchange(1100*ms, ok(5, 4, second))
	b.Report(1120*ms, carried[0], ok(5, 3, 990*ms)) // processed at 1110 ms
	b.Report(1120*ms, carried[1], ok(5, 2, 990*ms))
	b.left(1120*ms, 2)
}

func TestChargeCarriedOverMayOpenTheNewWindow(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 1)
	b.Report(1220*ms, carried[0], ok(5, 4, second-10*ms)) // processed at 1.2 s at the earliest, it was the first one
	b.left(1220*ms, 4)
	b.burst(1220*ms, 4)
}

func TestStaleAnswerChangesNothingButItsOwnCharge(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 1)
	b.exchange(1100*ms, ok(5, 4, second))
	reset := b.Reset()
	b.Report(1110*ms, carried[0], ok(5, 0, 40*ms)) // the old window was used up to the last
	b.left(1110*ms, 4)
	assert.Equal(t, reset, b.Reset())
	b.burst(1110*ms, 4)
	b.closedUntil(1110*ms, reset)
}

func TestAnswerThatMayBelongToEitherWindowStaysCharged(t *testing.T) {
	t.Parallel()
	b, carried := rolled(t, 1)
	b.exchange(1100*ms, ok(5, 4, second))
	// Sent at 950 ms and answered only now, the window it speaks of closed between 1.95 and 2.50 s.
	b.Report(1500*ms, carried[0], ok(5, 3, second))
	b.left(1500*ms, 3)
}

func TestAnswerMayShowThatAWindowClosedEarlierThanWasCertain(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(400*ms, b.send(0), ok(5, 4, second)) // closes between 1.0 and 1.4 s
	b.Report(500*ms, b.send(400*ms), ok(5, 3, 650*ms))
	require.Equal(t, ratelimits.KindFixed, b.Kind()) // between 1.05 and 1.15 s
	b.exchange(1100*ms, ok(5, 4, second))            // it was the first of a new one
	assert.Equal(t, ratelimits.KindFixed, b.Kind())
	b.left(1100*ms, 4)
	b.burst(1100*ms, 4)
	b.closedUntil(1100*ms, 2100*ms+rounding)
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

func TestMovedRequestNeedsNoRoom(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 10*second)
	b.burst(0, 1)
	moved := []ratelimits.Permit{b.Adopt(0, 0), b.Adopt(0, 0)}
	b.left(0, 0)
	assert.Equal(t, 3, b.InFlight())
	for _, p := range moved {
		b.Report(10*ms, p, refused(2, 10*second))
	}
	assert.Equal(t, 1, b.InFlight())
	b.closedUntil(10*ms, 10*second+10*ms+rounding)
}

// Requests of several routes meet in one bucket, one after the other: the first answer is that of a request that came
// here from elsewhere, and those answered before it count as well.
func TestFirstAnswerOfABucketMayBeThatOfAMovedRequest(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	early, late := b.Adopt(100*ms, 0), b.Adopt(100*ms, 10*ms)
	b.waitsForAnOutcome(100 * ms) // of an unknown bucket one request in flight is enough
	b.Report(110*ms, late, ok(5, 3, 10*second))
	b.left(110*ms, 2) // the other one may have come later
	b.Report(120*ms, early, ok(5, 4, 10*second))
	b.left(120*ms, 3) // now both have said how many there were
}

// A request that is charged twice for a while, here as adopted and as one that may belong here, counts once in the end.
func TestRequestThatWasChargedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{3, 4, 5} {
		b := newBucket(t)
		b.exchange(0, ok(limit, limit-1, 10*second))
		provisional := b.Adopt(100*ms, 90*ms) // on a route whose bucket is not known
		other := b.send(100 * ms)
		moved := b.Adopt(150*ms, 90*ms) // this is its bucket
		b.Report(150*ms, moved, ok(limit, limit-3, 9900*ms))
		b.Return(150*ms, provisional)
		b.Report(160*ms, other, ok(limit, limit-2, 9900*ms))
		require.Zero(t, b.InFlight())
		b.left(160*ms, limit-3)
	}
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Only a leaky bucket can be fuller by all that is in flight than it seemed. Where responses have ruled that out,
// others may be charged when one goes first after a loss.
func TestAfterALossNobodyGoesAloneInABucketThatIsNotLeaky(t *testing.T) {
	t.Parallel()
	b := proven(t, 50, []time.Duration{second})
	require.Equal(t, ratelimits.KindLog, b.Kind())
	b.Lost(100*ms, b.send(100*ms))
	b.exchange(1050*ms, ok(50, 48, second))
	now := 1100*ms + rounding
	b.Report(now, b.burst(now, 1)[0], ok(50, 48, second))
	b.many(now, 5)
}

// A server that is in trouble has not let anything through.
func TestServerErrorsBetweenRefusalsDoNotShortenTheWaits(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	now := time.Duration(0)
	for range 3 {
		b.exchange(now, refused(5, 10*ms))
		now = b.opens(now)
		b.exchange(now, broken)
		now = b.opens(now)
	}
	b.exchange(now, refused(5, 10*ms))
	assert.Greater(t, b.HoldWait(now), 400*ms, "the fourth in a row")
}

// There is room for so many charges, and of two that become one neither may be forgotten.
func TestLossAmongVeryManyRequestsIsFollowedByAProbe(t *testing.T) {
	t.Parallel()
	b := known(t, 200, 10*second)
	for i := range 80 {
		b.exchange(time.Duration(i+1)*50*ms, ok(200, 198-i, 10*second))
	}
	b.Lost(4100*ms, b.send(4100*ms))
	b.burst(time.Minute, 1)
}

// Three responses that fit no bucket show a change if they come soon after each other. Hours apart they are three
// mistakes.
func TestMistakesFarApartAreNotBelieved(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for hour := range 6 {
		now := time.Duration(hour) * time.Hour
		b.exchange(now, ok(5, 4, 10*second))
		b.exchange(now+second, ok(5, 3, 2*second)) // the reset has moved back
		require.Equal(t, 10*second, b.Period(), "after %d", hour+1)
	}
}

// What a limit of the resource has refused says nothing of the requests that the bucket has counted.
func TestLiftHoldOfASharedRefusalFreesNoPlace(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	for i := range 3 {
		b.exchange(0, ok(5, 3-i, 10*second))
	}
	b.exchange(0, shared(5*second))
	b.LiftHold(second)
	b.left(second, 1)
}

// A response that fits no bucket may be right all the same.
func TestResetThatNothingExplainsIsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	before := known(t, 5, 10*second)
	before.exchange(second, ok(5, 3, time.Minute))
	require.Equal(t, 10*second, before.Period())
	w := written(t, &before.Window)
	b := &bucket{w, t}
	b.Resume(2*second, false)
	assert.GreaterOrEqual(t, b.opens(2*second), time.Minute)
}

// What has passed a hidden limit may have passed it again when the other process came to its end.
func TestHiddenLimitIsUsedUpForTheNextProcess(t *testing.T) {
	t.Parallel()
	before := known(t, 20, second)
	for i := range 4 {
		before.exchange(0, ok(20, 18-i, second))
	}
	before.exchange(0, shared(10*second)) // five have passed
	now := 10*second + rounding
	for i := range 4 {
		before.exchange(now, ok(20, 19-i, second))
	}
	w := written(t, &before.Window)
	b := &bucket{w, t}
	b.Resume(18*second, false)
	now = 23 * second // the four would have come back
	b.exchange(now, ok(20, 19, second))
	b.burst(now, 1)
}

// It is still there when nothing has met it for long, as they had to wait for it.
func TestHiddenLimitIsNotForgottenWhileRequestsWaitForIt(t *testing.T) {
	t.Parallel()
	b := known(t, 50, time.Hour)
	b.exchange(0, ok(50, 48, time.Hour))
	b.exchange(100*ms, shared(second)) // two have passed
	now := b.opens(100 * ms)
	for range 10 {
		for range 3 { // one more than then
			b.exchange(now, ok(50, 40, time.Hour))
		}
		b.Next(now) // somebody waits
		now += 1500 * ms
	}
	b.burst(now, 3)
}

// Where others use the bucket, what they have used shows no sliding bucket.
func TestFixedWindowOfManyUsersIsNotTakenForASlidingBucket(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := serveConfig(t, discordsim.Config{
			Seed: seed, Rules: []discordsim.Rule{always(discordsim.Fixed(2, 2*second))},
			Foreign: []discordsim.ForeignUse{{Request: message, Every: 300 * ms}},
			Faults:  []discordsim.Fault{{Probability: 0.3, Status: 502, Uncounted: true}},
		}, between(seed, 50*ms, 55*ms))
		s.Send(60)
		s.Finish()
		assert.Zero(t, s.Avoidable(), "seed %d", seed)
	}
}

// A server error that names limits tells how full a bucket is, so the next one need not wait until it is empty.
func TestAfterAServerErrorWithLimitsNobodyHasToGoAlone(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, ok(5, 4, time.Minute))
	b.exchange(second, broken)
	now := b.opens(62 * second)
	failed := ok(5, 4, time.Minute)
	failed.Status = 500
	b.exchange(now, failed)
	b.burst(now+second, 1)
}

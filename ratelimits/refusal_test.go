package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

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

func TestUnexpectedRefusalLetsOneRequestGoFirst(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	permits := b.many(0, 3)
	b.Report(100*ms, permits[0], ok(5, 3, 9900*ms))
	b.Report(100*ms, permits[1], refused(5, 9900*ms)) // somebody else has been faster
	b.Report(100*ms, permits[2], refused(5, 9900*ms))
	assert.Zero(t, b.InFlight())
	b.left(100*ms, 0)
	at := b.opens(100 * ms)
	assert.InDelta(t, 10*second, at, float64(5*ms))
	probe := b.burst(at, 1)[0]
	b.waitsForAnOutcome(at)
	b.Report(at, probe, ok(5, 4, 10*second))
	b.burst(at, 4)
}

// Somebody else empties the bucket all the time. Each of their windows costs one 429 at most, and ours still get
// through.
func TestBucketThatSomebodyElseDrainsCostsOneRefusalForEachWindow(t *testing.T) {
	t.Parallel()
	config := discordsim.Config{
		Rules:   []discordsim.Rule{always(discordsim.Fixed(5, second))},
		Foreign: []discordsim.ForeignUse{{Request: message, Count: 5, Every: 3700 * ms, From: 300 * ms, Until: 30 * second}},
	}
	s := serveConfig(t, config, steady(40*ms))
	s.SendUntil(60 * second)
	s.Finish()
	assert.LessOrEqual(t, len(s.Refusals), 9, "they came nine times")
	assert.Zero(t, s.Avoidable())
	before, after := 0, 0
	for _, at := range s.Accepted {
		switch {
		case at < 30*second:
			before++
		case at >= 45*second:
			after++
		}
	}
	assert.Positive(t, before)
	assert.GreaterOrEqual(t, after, 65, "of 75 when it is ours alone again")
}

// What fills the place of a request that was taken back after a refusal is gone when the bucket is free again by what
// that refusal said, or when the hold was lifted.
func TestRequestThatIsTakenBackAfterARefusalLeavesRoomWhenThatIsOver(t *testing.T) {
	t.Parallel()
	for _, lift := range []bool{false, true} {
		b := known(t, 1, time.Minute)
		now, wait := 65*second, 500*ms
		refusedOne, elsewhere := b.send(now), b.Adopt(now, now)
		if lift {
			wait = 30 * second
		}
		b.Report(now, refusedOne, refusedFor(1, wait, wait))
		if lift {
			b.LiftHold(now)
			wait = 0
		}
		b.Return(now, elsewhere)
		assert.LessOrEqual(t, b.opens(now), now+wait+2*rounding)
	}
}

// A 429 of another limit names the bucket's limit, but no period of the bucket's. A request that is lost before a
// response has named that stays charged for as long as the 429 has spoken of, and not for no time at all.
func TestRequestIsChargedAfterARefusalThatNamesNoPeriod(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	refusal := shared(second)
	refusal.Limited, refusal.Limit, refusal.Remaining, refusal.ResetAfter = true, 2, 1, 4*second
	b.exchange(0, refusal)
	b.Lost(second+rounding, b.send(second+rounding))
	b.closedUntil(second+rounding, 4*second+rounding) // the 429 counts, too
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

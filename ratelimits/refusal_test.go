package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Three responses that no kind can have given show that the bucket has changed, if they come soon after each other. If
// they come hours apart, they are mistakes of the server, and must not change the period.
func TestMistakesFarApartAreNotBelieved(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for hour := range 6 {
		now := time.Duration(hour) * time.Hour
		b.exchange(now, ok(5, 4, 10*second))
		b.exchange(now+second, ok(5, 3, 2*second)) // the reset has moved back
		require.Equal(t, 10*second, b.Period(), "after %d mistakes", hour+1)
	}
}

// A server error that names limits shows how full the bucket is. So the next request need not wait until the bucket is
// empty.
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
	b.Report(100*ms, permits[1], refused(5, 9900*ms)) // a request of another client arrived earlier
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

// Another client uses up the bucket again and again. Each window that it uses up may cost at most one 429, and own
// requests must be accepted in between.
func TestBucketThatSomebodyElseDrainsCostsOneRefusalForEachWindow(t *testing.T) {
	t.Parallel()
	config := discordsim.Config{
		Rules:   []discordsim.Rule{always(discordsim.Fixed(5, second))},
		Foreign: []discordsim.ForeignUse{{Request: message, Count: 5, Every: 3700 * ms, From: 300 * ms, Until: 30 * second}},
	}
	s := serveConfig(t, config, steady(40*ms))
	s.SendUntil(60 * second)
	s.Finish()
	assert.LessOrEqual(t, len(s.Refusals), 9, "the other client came nine times")
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
	assert.GreaterOrEqual(t, after, 65, "of 75 possible requests after the other client has left")
}

// After a 429 the window counts as full. If a permit is given back while the window counts as full, the permit's place
// must be free when the wait of that 429 is over, or when the hold is lifted.
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

// A 429 of another limit names the bucket's limit, but not its period. If a request is lost before a response has named
// the period, it must stay charged for the time that the 429 has named.
func TestRequestIsChargedAfterARefusalThatNamesNoPeriod(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	refusal := shared(second)
	refusal.Limited, refusal.Limit, refusal.Remaining, refusal.ResetAfter = true, 2, 1, 4*second
	b.exchange(0, refusal)
	b.Lost(second+rounding, b.send(second+rounding))
	b.closedUntil(second+rounding, 4*second+rounding) // the refused request is also charged
}

// If the ledger has very many charges, it joins some of them. If one of the joined requests was lost, the next request
// must still be a probe.
func TestLossAmongVeryManyRequestsIsFollowedByAProbe(t *testing.T) {
	t.Parallel()
	b := known(t, 200, 10*second)
	for i := range 80 {
		b.exchange(time.Duration(i+1)*50*ms, ok(200, 198-i, 10*second))
	}
	b.Lost(4100*ms, b.send(4100*ms))
	b.burst(time.Minute, 1)
}

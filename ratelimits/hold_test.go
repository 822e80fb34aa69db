package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestAfterAHoldOneRequestGoesFirstAndTheRestOnItsSuccess(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.Hold(0, 2*second)
	assert.Equal(t, 2*second, b.HoldWait(0))
	b.closedUntil(0, 2*second)
	assert.True(t, b.Probing())
	probe := b.burst(2*second, 1)[0]
	b.waitsForAnOutcome(3 * second)

	b.Report(3*second, probe, ok(5, 3, 7*second))
	assert.False(t, b.Probing())
	b.burst(3*second, 3)
}

func TestProbeThatDoesNotSucceedIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lost", "given back", "broken"} {
		b := known(t, 5, 10*second)
		b.Hold(0, second)
		withoutLimits[name](b, 2*second, b.send(second))
		assert.True(t, b.Probing(), name)
		again := b.burst(2*second, 1)[0]
		b.Report(2100*ms, again, ok(5, 2, 8*second))
		b.burst(2100*ms, 2)
	}
}

func TestProbeNeedNotBeASuccessOfTheCaller(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.Hold(0, second)
	b.exchange(second, ratelimits.Response{Status: 403, Limited: true, Limit: 5, Remaining: 3, ResetAfter: 9 * second})
	b.burst(second, 3)
}

// The response to a request that was sent before the hold shows nothing about the time after the hold. The success of a
// probe shows nothing if another 429 has come since the probe was sent.
func TestOnlyASuccessAfterTheHoldEndsTheProbing(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	early := b.many(0, 2)
	b.Report(100*ms, early[0], shared(second))
	b.Report(200*ms, early[1], ok(5, 2, 9800*ms))
	assert.True(t, b.Probing())
	first := b.burst(1200*ms, 1)[0]
	b.Hold(1300*ms, 2*second)
	b.Report(1400*ms, first, ok(5, 1, 8600*ms))
	b.burst(20*second, 1)
}

func TestShorterHoldNeverShortensALongerOne(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 60*second)
	b.Hold(0, 10*second)
	b.Hold(0, second)
	b.exchangeInFlight(second, shared(2*second))
	b.Hold(second, 0)
	b.Hold(second, -second)
	b.closedUntil(second, 10*second)

	b = known(t, 5, 60*second)
	b.Hold(0, 0) // after a hold of no length, no probe is needed
	assert.False(t, b.Probing())
	b.burst(0, 4)
}

func TestSharedRefusalBlocksTheBucketForItsWaitAndNoLonger(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	for n := 3; n >= 1; n-- {
		b.exchange(0, ok(5, n, 10*second))
	}
	b.exchange(second, shared(40*second))
	b.closedUntil(second, 41*second+rounding)
	b.Report(42*second, b.send(41*second+rounding), ok(5, 4, 10*second))
	b.burst(42*second, 3) // including the probe, as many as were accepted before the 429
}

// The headers of a shared 429 may show free places. These places must stay free, because the bucket itself is not used
// up.
func TestSharedRefusalDoesNotUseUpTheBucket(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, ratelimits.Response{
		Status: 429, Class: ratelimits.ClassShared, Limited: true, Limit: 5, Remaining: 4, ResetAfter: 60 * second,
		RetryAfter: 2 * second, HasRetryAfter: true,
	})
	b.left(0, 4)
	probe := b.send(2*second + rounding)
	b.Report(3*second, probe, ok(5, 3, 57*second))
	b.burst(3*second, 3)
}

func TestLongWaitIsBelievedUpToADay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ said, believed time.Duration }{
		"beyond 16 bits of seconds": {82_721 * second, 82_721 * second},
		"1e9 seconds":               {1_000_000_000 * second, 24 * time.Hour},
		"years":                     {100 * 365 * 24 * time.Hour, 24 * time.Hour},
	} {
		for kind, answer := range map[string]ratelimits.Response{
			"retry-after":        refused(5, c.said),
			"shared retry-after": shared(c.said),
			"reset-after":        ok(5, 0, c.said),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				b := newBucket(t)
				b.exchange(second, answer)
				at := b.opens(second)
				assert.InDelta(t, second+c.believed, at, float64(rounding))
				b.exchange(at, ok(5, 4, second))
				b.burst(at, 4)
			})
		}
	}
}

func TestHoldKnowsTheRefusalItComesFrom(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 60*second)
	assert.Equal(t, ratelimits.ClassOK, b.HoldClass(0), "none")
	b.exchange(0, shared(10*second))
	assert.Equal(t, ratelimits.ClassShared, b.HoldClass(0))
	b.exchangeInFlight(second, refused(5, 2*second))
	assert.Equal(t, ratelimits.ClassShared, b.HoldClass(second), "a shorter hold changes nothing")
	b.exchangeInFlight(second, refused(5, 20*second))
	assert.Equal(t, ratelimits.ClassUser, b.HoldClass(second))
	assert.Equal(t, ratelimits.ClassOK, b.HoldClass(time.Hour), "the hold is over")
}

// If the window ends later than the hold, a request waits for the window. So WaitClass must not return the class of the
// hold.
func TestWaitIsForWhatTakesLongest(t *testing.T) {
	t.Parallel()
	b := known(t, 1, 60*second)
	b.HoldFor(0, 10*second, ratelimits.ClassUser)
	assert.Equal(t, ratelimits.ClassUser, b.HoldClass(0))
	assert.Equal(t, ratelimits.ClassOK, b.WaitClass(0))
	b.HoldFor(0, 70*second, ratelimits.ClassUser)
	assert.Equal(t, ratelimits.ClassUser, b.WaitClass(0))
}

func TestHoldsAfterRefusalsInARowGrow(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	now := time.Minute
	for range 6 {
		b.HoldRefused(now, 10*ms)
		now = b.opens(now)
	}
	b.HoldRefused(now, 10*ms)
	assert.Greater(t, b.HoldWait(now), second)
}

// With each further 429 in a row, the wait until the next try becomes longer, up to a minute. An accepted request ends
// the series.
func TestRefusalsInARowAreAskedLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]ratelimits.Response{
		"shared":  shared(10 * ms),
		"user":    refused(5, second),
		"no wait": {Status: 429, Class: ratelimits.ClassUser},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, first := known(t, 5, second), refusal.AskedWait()
			now := 100 * ms
			for i := range 100 {
				b.exchange(now, refusal)
				at := b.opens(now)
				if i == 0 {
					assert.InDelta(t, first, at-now, float64(second))
				}
				assert.LessOrEqual(t, at-now, time.Minute)
				now = at
			}
			assert.Greater(t, now, 30*time.Minute, "after 100 429s; Discord bans for 10,000 in ten minutes")
			b.exchange(now, ok(5, 4, second))
			now = b.opens(now + second)
			b.exchange(now, refusal)
			assert.LessOrEqual(t, b.opens(now), now+5*second)
		})
	}
}

// Nobody knows whether a lost request was accepted. A request that got a server error was perhaps not accepted either.
// Neither of them must end a series of 429s.
func TestWhatWasNotAcceptedDoesNotEndARowOfRefusals(t *testing.T) {
	t.Parallel()
	for _, between := range []ratelimits.Response{{}, broken} {
		b := newBucket(t)
		b.Unlimit()
		now := time.Duration(0)
		for range 7 {
			now = b.opens(now)
			b.exchange(now, between)
			b.Report(now, b.Adopt(now, now), shared(10*ms))
		}
		assert.Greater(t, b.HoldWait(now), second)
	}
}

func TestLiftHoldOfARefusalForgetsThatTheWindowIsUsedUp(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second)
	for i, p := range b.many(2*second, 3) {
		b.Report(2*second, p, ok(5, 2-i, 8*second))
	}
	b.exchangeInFlight(3*second, refused(5, 7*second))
	b.LiftHold(3 * second)
	probe := b.burst(3*second, 1)[0]
	b.Report(3*second, probe, ok(5, 4, 10*second))
	b.burst(3*second, 4)
}

// A permit was taken before the 429, and is given back after LiftHold. The permit's place must then be free, and must
// not count as used by another client.
func TestAPermitThatIsReturnedAfterLiftHoldIsFree(t *testing.T) {
	t.Parallel()
	b := fixed(t, 5, 10*second)
	early := b.many(2*second, 1)[0]
	b.exchangeInFlight(3*second, refused(5, 7*second))
	b.LiftHold(3 * second)
	probe := b.burst(3*second, 1)[0]
	b.Report(3*second, probe, ok(5, 4, 10*second))
	b.Return(3*second, early)
	b.left(3*second, 4)
}

// A 429 of a shared limit says nothing about the requests that the bucket has counted. So these requests must stay
// charged after LiftHold.
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

func TestWaitsGrowWhileALimitRefusesAgainAndAgain(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	grown := func(most, now time.Duration) {
		wait := r.Again(now, false)
		assert.LessOrEqual(t, wait, most)
		assert.GreaterOrEqual(t, wait, most-most/8)
		assert.Equal(t, wait, r.Again(now, true), "requests refused while the limit is held count once")
	}
	for i, most := range []time.Duration{
		0, 0, 250 * ms, 500 * ms, second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second,
		time.Minute, time.Minute,
	} {
		grown(most, time.Duration(i)*second)
	}
	for i := range 300 {
		grown(time.Minute, time.Hour+time.Duration(i)*second)
	}
	r.Accepted(2 * time.Hour)
	assert.Zero(t, r.Row())
	assert.Zero(t, r.Again(3*time.Hour, false))
}

// Another client uses up the limit in one half of every second. The client's waits, which have grown, must not stay in
// step with the other client.
func TestGrownWaitsKeepNoStepWithOthers(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	now, through := time.Duration(0), 0
	for range 100 {
		now += max(r.Again(now, false), 250*ms)
		if now%second >= second/2 {
			through++
		}
	}
	assert.Greater(t, through, 20)
}

// If a request was sent before the latest 429, its success must not end the series of 429s.
func TestSuccessOfARequestFromBeforeARefusalEndsNoRow(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	for i := range 3 {
		r.Again(time.Duration(i+1)*second, false)
		r.Accepted(500 * ms)
	}
	assert.Equal(t, 3, r.Row())
	r.Accepted(3 * second)
	assert.Zero(t, r.Row())
}

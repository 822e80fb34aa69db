package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

func TestHiddenLimitIsMetByABurstOnceAndThenByOneRequestOnly(t *testing.T) {
	t.Parallel()
	b := known(t, 20, time.Hour)
	for _, p := range b.many(0, 2) {
		b.Report(100*ms, p, ok(20, 17, time.Hour))
	}
	for _, p := range b.many(100*ms, 5) { // the hidden limit accepts the probe and two of these, and refuses the others
		b.Report(200*ms, p, shared(second))
	}
	now := 1200*ms + rounding
	b.Report(now, b.burst(now, 1)[0], ok(20, 16, time.Hour)) // the probe
	for _, p := range b.burst(now, 2) {
		b.Report(now, p, ok(20, 16, time.Hour))
	}
	only := b.burst(now, 1)[0]
	b.waitsForAnOutcome(now)
	b.Report(now, only, shared(second))
	now = b.opens(now)
	b.Report(now, b.burst(now, 1)[0], ok(20, 16, time.Hour))
	for _, p := range b.burst(now, 2) {
		b.Report(now, p, ok(20, 16, time.Hour))
	}
	assert.Zero(t, b.HoldWait(now))
	assert.Equal(t, ratelimits.ClassShared, b.HoldClass(now), "the next request waits for the hidden limit")
	first, eighth := b.Predict(now, 0), b.Predict(now, 7)
	assert.Greater(t, eighth, 2*first, "the hidden limit accepts three requests at a time")
	at := b.opens(now)
	assert.Equal(t, at-now, first, "the wait was predicted")
	assert.Greater(t, at, now+second, "a fourth request is not tried so soon")
}

// Several requests in flight meet a hidden limit. The outcomes that come after the first 429 do not show how many
// requests the limit accepts.
func TestRefusalsInFlightTogetherTellOfAHiddenLimitOnce(t *testing.T) {
	t.Parallel()
	b := known(t, 20, time.Hour)
	for _, p := range b.many(0, 5) {
		b.Report(100*ms, p, ok(20, 14, time.Hour))
	}
	together := b.many(100*ms, 3)
	b.Report(200*ms, together[0], shared(second))
	b.Report(201*ms, together[1], ok(20, 13, time.Hour))
	b.Report(202*ms, together[2], shared(second))
	now := b.opens(202 * ms)
	b.Report(now, b.burst(now, 1)[0], ok(20, 12, time.Hour)) // the probe
	b.burst(now, 5)                                          // before the 429, six requests were accepted
}

func TestHiddenLimitThatHasBecomeSmallerIsLearntAnew(t *testing.T) {
	t.Parallel()
	b := known(t, 50, time.Hour)
	for _, p := range b.many(0, 10) {
		b.Report(100*ms, p, ok(50, 39, time.Hour))
	}
	b.exchange(100*ms, shared(second)) // after eleven accepted requests
	now := b.opens(100 * ms)
	for range 3 {
		b.exchange(now, ok(50, 36, time.Hour))
	}
	b.exchange(now, shared(second)) // after three accepted requests
	now = b.opens(now)
	b.exchange(now, ok(50, 35, time.Hour)) // the probe
	b.burst(now, 2)
}

// A request tries whether a hidden limit accepts more than last time. After each refused try, the next try must come
// later.
func TestHiddenLimitIsTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]discordsim.Quota{
		"fixed":       discordsim.Fixed(2, 2*second),
		"aligned":     discordsim.Aligned(2, 2*second, 700*ms),
		"sliding log": discordsim.Sliding(2, 2*second),
		"leaky":       discordsim.Leaky(2, 2*second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(discordsim.Fixed(10, second))
			rule.Shared = &discordsim.SharedLimit{Quota: hidden}
			s := serve(t, rule, steady(40*ms))
			s.SendUntil(120 * second)
			s.Finish()
			assert.LessOrEqual(t, len(s.Refusals), 20, "eight of the refusals belong to the first burst")
			assert.GreaterOrEqual(t, len(s.Accepted), 110, "of 120 possible requests")
		})
	}
}

// However often tries were refused, the next try must come after a reasonable time.
func TestHiddenLimitIsTriedAgainForEver(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(10, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(1, second)}
	s := serve(t, rule, steady(10*ms))
	s.SendUntil(1_500 * second)
	s.Finish()
	last := s.Refusals[len(s.Refusals)-1]
	assert.GreaterOrEqual(t, last, 1_200*second)
}

// While requests wait for a hidden limit, no 429 shows the limit again. Nevertheless, the limit must not be forgotten.
func TestHiddenLimitIsNotForgottenWhileRequestsWaitForIt(t *testing.T) {
	t.Parallel()
	b := known(t, 50, time.Hour)
	b.exchange(0, ok(50, 48, time.Hour))
	b.exchange(100*ms, shared(second)) // after two accepted requests
	now := b.opens(100 * ms)
	for range 10 {
		for range 3 { // one more than the limit accepted
			b.exchange(now, ok(50, 40, time.Hour))
		}
		b.Next(now) // a request waits
		now += 1500 * ms
	}
	b.burst(now, 3)
}

// A 429 has shown a hidden limit, and the hold of that 429 is over. LiftHold must still lift the limit.
func TestLiftHoldLiftsTheHiddenLimitAlsoAfterTheHold(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(2, 600*second)}
	s := serve(t, rule, steady(20*ms))
	s.Send(3)
	s.Finish()
	require.Len(t, s.Refusals, 1)
	s.Send(3) // after the hold, two are accepted, and a third is refused
	s.Finish()
	require.Len(t, s.Refusals, 2)
	s.Send(2)
	s.Finish()
	at, certain := s.Next(s.Now)
	require.True(t, certain)
	require.Zero(t, s.HoldWait(s.Now))
	require.Greater(t, at, s.Now+60*second)
	require.Equal(t, ratelimits.ClassShared, s.HoldClass(s.Now))
	s.LiftHold(s.Now)
	at, _ = s.Next(s.Now)
	assert.LessOrEqual(t, at, s.Now+2*second)
}

func TestWaitForAHiddenLimitIsForTheRefusalUnlessTheWindowTakesLonger(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]ratelimits.Class{50: ratelimits.ClassShared, 3: ratelimits.ClassOK} {
		b := newBucket(t)
		b.exchange(0, ok(limit, limit-1, time.Hour))
		b.exchange(0, shared(10*second))
		now := b.opens(0)
		b.exchange(now, ok(limit, limit-2, time.Hour))
		b.send(now) // tries whether the limit accepts one more
		assert.Equal(t, want, b.WaitClass(now), "limit %d", limit)
	}
}

// A prediction must take a hidden limit into account, even if no request is charged to that limit.
func TestPredictionKnowsTheHiddenLimitWhenNothingIsCharged(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Sliding(2, 2*second)}
	s := serve(t, rule, steady(20*ms))
	s.SendUntil(20 * second)
	s.Finish()
	s.Until(s.Now + 2100*ms) // all places are free
	start, predicted := s.Now, s.Predict(s.Now, 20)
	s.Send(21)
	assert.InEpsilon(t, s.Now-start, predicted, 0.5, "the actual wait was %v", s.Now-start)
}

// If a request may be sent now to try whether a hidden limit accepts more, no wait may be predicted for it.
func TestNoWaitIsPredictedForWhoTriesAHiddenLimit(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, ok(50, 49, time.Hour))
	b.exchange(0, ok(50, 48, time.Hour))
	b.exchange(0, shared(10*second))
	now := b.opens(0)
	b.exchange(now, ok(50, 46, time.Hour))
	b.exchange(now, ok(50, 45, time.Hour))
	at, certain := b.Next(now)
	require.True(t, certain)
	require.Equal(t, now, at)
	assert.Zero(t, b.Predict(now, 0))
	assert.Equal(t, ratelimits.ClassOK, b.WaitClass(now))
	b.send(now)
	assert.True(t, b.AwaitsProbe(now))
	assert.Positive(t, b.Predict(now, 0), "the other request's try may be refused")
}

func TestHiddenLimitThatIsNotMetAgainGivesWay(t *testing.T) {
	t.Parallel()
	b := known(t, 20, time.Hour)
	b.exchange(0, shared(second))
	for n := 18; n >= 15; n-- {
		now := second + rounding
		b.Report(now, b.burst(now, 1)[0], ok(20, n, time.Hour)) // one at a time
	}
	b.burst(10*second, 15) // the limit was shown long ago, so all requests may be sent
}

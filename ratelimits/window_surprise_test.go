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
	for _, p := range b.many(100*ms, 5) { // three have passed, and no more do
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
	assert.Equal(t, ratelimits.ClassShared, b.HoldClass(now), "what the next one waits for")
	first, eighth := b.Predict(now, 0), b.Predict(now, 7)
	assert.Greater(t, eighth, 2*first, "three at a time")
	at := b.opens(now)
	assert.Equal(t, at-now, first, "it was foreseen")
	assert.Greater(t, at, now+second, "the same again, and none more is tried so soon")
}

// What was refused or let through beside the request that met a hidden limit says nothing of how much it lets through.
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
	b.burst(now, 5)                                          // six had passed before
}

func TestHiddenLimitThatHasBecomeSmallerIsLearntAnew(t *testing.T) {
	t.Parallel()
	b := known(t, 50, time.Hour)
	for _, p := range b.many(0, 10) {
		b.Report(100*ms, p, ok(50, 39, time.Hour))
	}
	b.exchange(100*ms, shared(second)) // eleven have passed
	now := b.opens(100 * ms)
	for range 3 {
		b.exchange(now, ok(50, 36, time.Hour))
	}
	b.exchange(now, shared(second)) // three, and no more
	now = b.opens(now)
	b.exchange(now, ok(50, 35, time.Hour)) // the probe
	b.burst(now, 2)
}

// A hidden limit that has shown again and again how much it lets through is asked for more less and less often.
func TestHiddenLimitIsTriedLessAndLessOften(t *testing.T) {
	t.Parallel()
	for name, hidden := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(2, 2*second), "sliding log": discordsim.Sliding(2, 2*second), "leaky": discordsim.Leaky(2, 2*second),
		"aligned": discordsim.Aligned(2, 2*second, 700*ms),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(discordsim.Fixed(10, second))
			rule.Shared = &discordsim.SharedLimit{Quota: hidden}
			s := serve(t, rule, steady(40*ms))
			s.SendUntil(120 * second)
			s.Finish()
			assert.LessOrEqual(t, len(s.Refusals), 20, "eight of them at once at first")
			assert.GreaterOrEqual(t, len(s.Accepted), 110, "of 120")
		})
	}
}

// However often that was in vain, it is tried again within a time that is not out of proportion.
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

func TestHiddenLimitThatIsNotMetAgainGivesWay(t *testing.T) {
	t.Parallel()
	b := known(t, 20, time.Hour)
	b.exchange(0, shared(second))
	now := second + rounding
	for n := 18; n >= 15; n-- {
		p := b.burst(now, 1)[0] // one at a time
		b.Report(now, p, ok(20, n, time.Hour))
	}
	b.burst(10*second, 15) // all of them: it was long ago
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

func TestRefusalUsesUpTheWindowEvenIfItSaysNoNumbers(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.exchange(second, ratelimits.Response{Status: 429, Class: ratelimits.ClassUser, RetryAfter: 9 * second, HasRetryAfter: true})
	b.left(second, 0)
	b.left(9*second, 0)
}

func TestRefusalsOfOneBurstCountAsOneSurprise(t *testing.T) {
	t.Parallel()
	after := func(refusals int) time.Duration {
		b := known(t, 10, 10*second)
		for _, p := range b.many(0, refusals) {
			b.Report(100*ms, p, refused(10, 9900*ms))
		}
		at := b.opens(100 * ms)
		b.exchange(at, ok(10, 9, 10*second))
		b.burst(at, 9)
		return at
	}
	assert.InDelta(t, after(1), after(9), float64(5*ms))
}

// surprise answers n requests with a 429 each, one after the other, each as soon as it may leave.
func surprise(b *bucket, n int) {
	b.t.Helper()
	now := 100 * ms
	for range n {
		now = b.opens(now)
		b.exchange(now, refused(5, second))
	}
}

func TestSurprisesHealWhenTheyEnd(t *testing.T) {
	t.Parallel()
	for surprises, atMost := range map[int]int{1: 2, 2: 4, 3: 8, 10: 40, 100: 40} { // windows
		b := known(t, 5, second)
		surprise(b, surprises)
		now, windows := b.Reset(), 0
		for !wholeWindow(b, &now) {
			windows++
			require.Less(t, windows, atMost, "after %d surprises", surprises)
		}
	}
}

// wholeWindow uses up a window, as much at once as may leave, and reports whether that was all but a probe.
func wholeWindow(b *bucket, now *time.Duration) bool {
	b.t.Helper()
	*now = b.opens(*now)
	b.exchange(*now, ok(5, 4, second))
	largest := 0
	for left := 3; left >= 0; {
		permits := b.many(*now, 1)
		for more, granted := b.Take(*now); granted; more, granted = b.Take(*now) {
			permits = append(permits, more)
		}
		for _, p := range permits {
			b.Report(*now, p, ok(5, left, second))
			left--
		}
		largest = max(largest, len(permits))
	}
	return largest == 4
}

// However often a bucket refuses without a reason, it is asked again within a minute, and less and less often until
// then.
func TestSurprisesNeverMakeTheWaitGrowWithoutBound(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	now := time.Duration(0)
	for range 200 {
		at := b.opens(now)
		assert.LessOrEqual(t, at-now, time.Minute)
		b.exchange(at, refused(5, second))
		now = at
	}
	assert.GreaterOrEqual(t, b.opens(now)-now, time.Minute*7/8)
	b.exchange(b.opens(now), ok(5, 4, second))
	now = b.opens(now)
	b.exchange(now, refused(5, second))
	assert.LessOrEqual(t, b.opens(now)-now, 5*second, "what was accepted ends it")
}

func TestRefusalsWithoutAWaitAreAskedLessAndLessOftenButAsked(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	unsaid := refused(5, 0)
	unsaid.Limited, unsaid.HasRetryAfter = false, false
	now, first, longest := time.Duration(0), time.Duration(0), time.Duration(0)
	for range 50 {
		b.exchange(now, unsaid)
		at := b.opens(now)
		if first == 0 {
			first = at - now
		}
		longest = max(longest, at-now)
		now = at
	}
	assert.GreaterOrEqual(t, longest, 4*first)
	assert.LessOrEqual(t, longest, 5*time.Minute)
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

// afterSlowUse counts the refusals of a bucket with a hidden limit that was used slowly for some time, and then as fast
// as possible.
func afterSlowUse(t *testing.T, slowly int) (refusals int) {
	t.Helper()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Sliding(2, 2*second)}
	s := serve(t, rule, steady(20*ms))
	s.SendEvery(1500*ms, slowly)
	s.Refusals = nil
	s.SendUntil(s.Now + 120*second)
	return len(s.Refusals)
}

// How many had passed since the beginning of time says nothing of how many a hidden limit lets through at once.
func TestHiddenLimitIsLearntAlsoAfterSlowUse(t *testing.T) {
	t.Parallel()
	fresh := afterSlowUse(t, 0)
	used := afterSlowUse(t, 300)
	assert.LessOrEqual(t, used, fresh+3, "%d refusals of a new window", fresh)
}

// A resource whose places come back one by one is met by everything that is in flight, again and again.
func TestHiddenLimitThatGivesBackPlaceAfterPlaceIsLearnt(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Leaky(5, 10*second)}
	s := serve(t, rule, steady(20*ms))
	s.SendUntil(60 * second)
	early := len(s.Refusals)
	s.SendUntil(600 * second)
	assert.LessOrEqual(t, len(s.Refusals)-early, 50, "in nine minutes, after %d in the first one", early)
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

func TestLiftHoldOfNothingChangesNothing(t *testing.T) {
	t.Parallel()
	b := known(t, 5, 10*second)
	b.LiftHold(0)
	b.burst(0, 4)
}

func TestRefusalTellsThePeriodToo(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, refused(5, 10*second))
	assert.Equal(t, 10*second, b.Period())
}

// When the hold itself is over, the hidden limit that the 429 has shown cannot be lifted any more.
func TestLiftHoldLiftsTheHiddenLimitAlsoAfterTheHold(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(2, 600*second)}
	s := serve(t, rule, steady(20*ms))
	s.Send(3)
	s.Finish()
	require.Len(t, s.Refusals, 1)
	s.Send(3) // after the hold, two and one more in vain
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

// A 429 that came while a request was in flight counted that as what fills the bucket, if there was no other. When it
// turns out never to have been sent, or to belong elsewhere, something else does.
func TestRequestThatIsTakenBackAfterARefusalLeavesNoRoom(t *testing.T) {
	t.Parallel()
	b := known(t, 2, 2*second)
	b.Report(3*second, b.send(3*second), ok(2, 1, 2*second))
	both := b.many(6*second, 2)
	b.Report(6100*ms, both[0], refusedFor(2, 500*ms, 1900*ms))
	b.Return(6100*ms, both[1])
	for now := 6100 * ms; now < 8*second; now += 100 * ms {
		_, granted := b.Take(now)
		assert.False(t, granted, "at %v", now)
	}
	b.burst(8*second+2*rounding, 1)
}

// refusedFor is a 429 of the bucket itself that asks to come back before the bucket is empty.
func refusedFor(limit int, retry, reset time.Duration) ratelimits.Response {
	r := refused(limit, retry)
	r.ResetAfter = reset
	return r
}

// What fills the place of a request that was taken back after a refusal is gone when the bucket is free again by what
// that refusal said.
func TestRequestThatIsTakenBackAfterARefusalLeavesRoomWhenThatIsOver(t *testing.T) {
	t.Parallel()
	b := known(t, 1, time.Minute)
	now := 65 * second
	refusedOne, elsewhere := b.send(now), b.Adopt(now, now)
	b.Report(now, refusedOne, refusedFor(1, 500*ms, 500*ms))
	b.Return(now, elsewhere)
	assert.LessOrEqual(t, b.opens(now), now+500*ms+2*rounding)
}

func TestRequestThatIsTakenBackAfterTheHoldWasLiftedLeavesRoom(t *testing.T) {
	t.Parallel()
	b := known(t, 1, time.Minute)
	now := 65 * second
	refusedOne, elsewhere := b.send(now), b.Adopt(now, now)
	b.Report(now, refusedOne, refusedFor(1, 30*second, 30*second))
	b.LiftHold(now + second)
	b.Return(now+second, elsewhere)
	assert.Equal(t, now+second, b.opens(now+second))
}

package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// raisedAt is a limit that becomes another one 5 s after the beginning.
func raisedAt(before, after discordsim.Quota) discordsim.Rule {
	rule := always(before)
	rule.Changes = []discordsim.Change{{At: 5 * second, Quota: after}}
	return rule
}

// A bucket of one request per period never has two answers while anything is charged, so that a raised limit is never "named twice".
func TestRaisedLimitIsBelievedByABucketOfOneRequest(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]discordsim.Rule{
		"fixed":       raisedAt(discordsim.Fixed(1, second), discordsim.Fixed(10, second)),
		"sliding log": raisedAt(discordsim.Sliding(1, second), discordsim.Sliding(10, second)),
		"leaky":       raisedAt(discordsim.Leaky(1, second), discordsim.Leaky(10, second)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(60 * second)
			assert.Equal(t, 10, s.Limit(), "after 55 periods in which every answer named 10")
		})
	}
}

// Where answers keep coming, the moment from which on a period is waited keeps moving, too.
func TestRaisedLimitIsBelievedByABucketThatIsAlwaysInUse(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]discordsim.Rule{
		"sliding log": raisedAt(discordsim.Sliding(5, second), discordsim.Sliding(50, second)),
		"leaky":       raisedAt(discordsim.Leaky(5, second), discordsim.Leaky(50, second)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, rule, steady(20*ms))
			for s.now < 60*second {
				s.sendEvery(400*ms, 1)
			}
			s.finish()
			assert.Equal(t, 50, s.Limit(), "after 55 periods in which every answer named 50")
			assert.GreaterOrEqual(t, s.Remaining(s.now), 40)
		})
	}
}

// sharedAfter is a bucket with a hidden limit, used slowly for some time, and then as fast as possible.
func afterSlowUse(t *testing.T, slowly int) (refusals int) {
	t.Helper()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Sliding(2, 2*second)}
	s := serve(t, rule, steady(20*ms))
	s.sendEvery(1500*ms, slowly)
	s.refusals = nil
	s.sendUntil(s.now + 120*second)
	return len(s.refusals)
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
	s.sendUntil(60 * second)
	early := len(s.refusals)
	s.sendUntil(600 * second)
	assert.LessOrEqual(t, len(s.refusals)-early, 50, "in nine minutes, after %d in the first one", early)
}

// When nothing is charged to a hidden limit, or one more may be tried, prediction says that a hundred may leave at once.
func TestPredictionKnowsTheHiddenLimitWhenNothingIsCharged(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Sliding(2, 2*second)}
	s := serve(t, rule, steady(20*ms))
	s.sendUntil(20 * second)
	s.finish()
	s.until(s.now + 2100*ms) // all have come back
	start, predicted := s.now, s.Predict(s.now, 20)
	s.send(21)
	assert.InEpsilon(t, s.now-start, predicted, 0.5, "really %v", s.now-start)
}

// Nothing leaves during a hold, so what those ahead need comes on top of it.
func TestPredictionAddsTheQueueToTheHold(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(5, second)), steady(20*ms))
	s.send(10)
	s.finish()
	s.Hold(s.now, 20*second)
	start, predicted := s.now, s.Predict(s.now, 99)
	s.send(100)
	assert.InEpsilon(t, s.now-start, predicted, 0.25)
}

// A log of many places in smooth use: those that are taken together come back together, as late as the latest of them.
func TestLogOfManyPlacesDoesNotMakeASmoothUserWait(t *testing.T) {
	t.Parallel()
	const limit, period = 1000, 10 * second
	s := serve(t, always(discordsim.Sliding(limit, period)), steady(20*ms))
	s.send(1)
	s.finish()
	longest := time.Duration(0)
	for range 5 * limit {
		asked := s.now
		s.send(1)
		longest = max(longest, s.now-asked)
		s.until(asked + period/limit*21/20) // 5% slower than what is allowed
	}
	assert.Less(t, longest, period/10, "a request that could have left at once")
}

// After one 429 that somebody else has caused, a fixed window is taken for a log that names its next place, and never seen to be none.
func TestFixedWindowAfterAStrangersRefusalOpensWhenItCloses(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Fixed(5, 10*second)), steady(20*ms))
	s.send(3)
	s.finish()
	s.world.Consume(s.start.Add(s.now), message, 5)
	s.send(1) // refused
	s.finish()
	require.Len(t, s.refusals, 1)
	s.until(60 * second)
	waits := time.Duration(0)
	for range 5 {
		begin := s.now
		s.send(1) // opens the window
		s.until(begin + 9*second)
		s.send(4) // late in it
		s.until(begin + 10*second + 50*ms)
		asked := s.now
		s.send(4) // in the next one
		waits = max(waits, s.now-asked)
		s.until(s.now + 15*second)
	}
	assert.Less(t, waits, second)
}

// The period that a bucket once seemed to have is never forgotten by one with few places.
func TestPeriodThatHasBecomeShorterIsBelieved(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]func(int, time.Duration) discordsim.Quota{
		"fixed": discordsim.Fixed, "sliding log": discordsim.Sliding,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota(5, 60*second))
			rule.Changes = []discordsim.Change{{At: 5 * second, Quota: quota(5, second)}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 1000, "in 300 s at five a second, ten minutes after the change, period %v", s.Period())
		})
	}
}

// A 429 of the resource says how long the resource is used up, and that becomes the period of the bucket for ever.
func TestResetOfASharedRefusalIsNotThePeriodOfTheBucket(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(5, second), "sliding log": discordsim.Sliding(5, second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota)
			rule.Faults = []discordsim.Fault{{Nth: []int{8}, Edit: func(_ discordsim.Call, r *discordsim.Response) {
				r.Status = 429 // as in Discord's documentation: Remaining 9 of 10, Reset-After 64.57, scope shared
				r.Header.Set("X-RateLimit-Scope", "shared")
				r.Header.Set("X-RateLimit-Reset-After", "64.570")
				r.Header.Set("Retry-After", "65")
				r.Body = []byte(`{"message": "The resource is being rate limited.", "retry_after": 64.57, "global": false}`)
			}}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 1000, "in 300 s at five a second, ten minutes after one 429, period %v", s.Period())
		})
	}
}

// One answer that names a wrong reset makes a bucket of two places thirty times as slow for ever.
func TestOneWrongResetIsForgottenByASmallBucket(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(2, second), "sliding log": discordsim.Sliding(2, second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := always(quota)
			rule.Faults = []discordsim.Fault{{Nth: []int{7}, Set: map[string]string{"X-RateLimit-Reset-After": "60.000"}}}
			s := serve(t, rule, steady(20*ms))
			s.sendUntil(10 * 60 * second)
			before := len(s.accepted)
			s.sendUntil(15 * 60 * second)
			assert.Greater(t, len(s.accepted)-before, 400, "in 300 s at two a second, ten minutes after the lie, period %v", s.Period())
		})
	}
}

// Answers to requests that were sent before the limit went down name the old one. They are not news.
func TestAnswersFromBeforeALowerLimitDoNotRaiseIt(t *testing.T) {
	t.Parallel()
	b := known(t, 10, second)
	early := b.many(100*ms, 2)
	b.exchange(200*ms, ok(5, 1, 800*ms)) // the limit has gone down
	b.Report(300*ms, early[0], ok(10, 8, 900*ms))
	b.Report(300*ms, early[1], ok(10, 7, 900*ms))
	b.left(2*second, 5)
	b.burst(2*second, 5)
}

// The same against the server: requests that take long come back with the old limit after it went down.
func TestSlowAnswersDoNotRaiseALimitThatWentDown(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(100, 2*second))
	rule.Changes = []discordsim.Change{{At: 5 * second, Quota: discordsim.Fixed(10, 2*second)}}
	back := 10 * ms
	s := serve(t, rule, func() trip { return trip{10 * ms, back} })
	s.send(1)
	s.until(4 * second)
	back = 3 * second
	s.send(20) // answered at 7 s
	back = 10 * ms
	s.until(6300 * ms)
	s.send(3) // these answers say that the limit is 10
	s.until(9 * second)
	s.send(60)
	s.finish()
	assert.Zero(t, s.world.Report().Avoidable.Total(), "%d refusals", len(s.refusals))
}

// What Next says cannot be later than what Predict says of the same request.
func TestPredictionAfterTheLimitWentDownWaitsForEnoughPlaces(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	for i := range 6 {
		b.exchange(time.Duration(i)*second, ok(10, 9-i, 10*second)) // a log
	}
	b.exchange(6*second, ok(2, 0, 10*second))
	at, certain := b.Next(6 * second)
	require.True(t, certain)
	assert.GreaterOrEqual(t, b.Predict(6*second, 0), at-6*second)
	assert.GreaterOrEqual(t, b.Predict(6*second, 1), b.Predict(6*second, 0))
}

// A window that has just been spoken of as full is full until then, also for who predicts.
func TestPredictionIsNeverShorterThanNext(t *testing.T) {
	t.Parallel()
	for name, rule := range rulesOfEveryKind(5, second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule.Faults = []discordsim.Fault{{Every: 4, Status: 502}}
			s := serve(t, rule, between(3, 5*ms, 80*ms))
			for range 300 {
				for !s.sendNow() {
					if at, certain := s.Next(s.now); certain {
						require.GreaterOrEqual(t, s.Predict(s.now, 0), at-s.now, "at %v", s.now)
					}
					s.wait()
				}
			}
		})
	}
}

// The places of requests in flight come back a period after them, not with the one place that comes back next.
func TestPredictionCountsThoseInFlight(t *testing.T) {
	t.Parallel()
	s := serve(t, always(discordsim.Sliding(5, 10*second)), steady(20*ms))
	s.send(30)
	s.until(s.now + 20*second)
	start := s.now
	s.send(1)
	s.until(start + 9900*ms)
	s.send(4) // in flight
	begin, predicted := s.now, s.Predict(s.now, 1)
	s.send(2)
	assert.InEpsilon(t, s.now-begin, predicted, 0.25, "really %v", s.now-begin)
}

// When the hold itself is over, the hidden limit that the 429 has shown cannot be lifted any more.
func TestLiftHoldLiftsTheHiddenLimitAlsoAfterTheHold(t *testing.T) {
	t.Parallel()
	rule := always(discordsim.Fixed(50, second))
	rule.Shared = &discordsim.SharedLimit{Quota: discordsim.Fixed(2, 600*second)}
	s := serve(t, rule, steady(20*ms))
	s.send(3)
	s.finish()
	require.Len(t, s.refusals, 1)
	s.send(3) // after the hold, two and one more in vain
	s.finish()
	require.Len(t, s.refusals, 2)
	s.send(2)
	s.finish()
	at, certain := s.Next(s.now)
	require.True(t, certain)
	require.Zero(t, s.HoldWait(s.now))
	require.Greater(t, at, s.now+60*second)
	require.Equal(t, ratelimits.ClassShared, s.HoldClass(s.now))
	s.LiftHold(s.now)
	at, _ = s.Next(s.now)
	assert.LessOrEqual(t, at, s.now+2*second)
}

// A guess stays a guess when it is handed on.
func TestRecalledLimitIsStillAGuessInAState(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Recall(5, second)
	require.False(t, b.Known())
	other := ratelimits.NewWindow(0, b.State(0))
	assert.False(t, other.Known())
	p, granted := other.Take(0)
	require.True(t, granted)
	other.Report(10*ms, p, ok(50, 49, second))
	assert.Equal(t, 50, other.Limit(), "the first answer replaces a guess")
}

// Sums of numbers that are allowed one by one overflow.
func TestLargestLimitDoesNotOverflow(t *testing.T) {
	t.Parallel()
	const limit, left = 1_000_000_000, 100_000_000
	b := newBucket(t)
	b.exchange(0, ok(limit, limit-1, second))
	early := b.send(0)
	for i := range 3 {
		now := time.Duration(2*i+2) * second
		b.exchange(now, ok(limit, left, second))
	}
	b.Report(6500*ms, early, ok(limit, limit-1, second))
	state := b.State(6500 * ms)
	assert.GreaterOrEqual(t, state.Used, left, "more than so many are not counted")
	assert.LessOrEqual(t, b.Remaining(6500*ms), left)
	at, certain := b.Next(6500 * ms)
	assert.True(t, certain, "nothing is in flight")
	assert.Less(t, at, 10*second)
}

// What a window knows of the kind is not in its state, and each hand-over of a log that names its next place costs refusals.
func TestStateOfALogThatNamesItsNextPlaceIsSafe(t *testing.T) {
	t.Parallel()
	refusals := func(handOver bool) (total int) {
		for seed := range uint64(20) {
			s := serve(t, always(discordsim.SlidingNext(5, second)), between(seed, 5*ms, 60*ms))
			for range 20 {
				for i := range 8 {
					s.send(1)
					if i%3 == 2 {
						s.until(s.now + 150*ms)
					}
				}
				s.finish()
				if handOver {
					s.Window = ratelimits.NewWindow(s.now, s.State(s.now))
				}
			}
			total += s.world.Report().Avoidable.Total()
		}
		return total
	}
	assert.LessOrEqual(t, refusals(true), refusals(false)+20, "in 400 hand-overs with nothing in flight")
}

// The round trip that is taken off is the smallest ever seen, of requests that were sent by a slower way than those that follow.
func TestGlobalLimitHoldsWhenTheNetworkBecomesFaster(t *testing.T) {
	t.Parallel()
	const limit = 50
	g := ratelimits.NewGlobal(limit)
	type request struct {
		slot     ratelimits.Slot
		answered time.Duration
	}
	var flying []request
	var processed []time.Duration
	for now := time.Duration(0); now < 20*second; now += ms {
		oneWay := 200 * ms
		if now > 10*second {
			oneWay = 10 * ms
		}
		kept := flying[:0]
		for _, r := range flying {
			if r.answered <= now {
				g.Report(now, r.slot)
				continue
			}
			kept = append(kept, r)
		}
		flying = kept
		for {
			slot, wait := g.Take(now)
			if wait > 0 {
				break
			}
			processed = append(processed, now+oneWay)
			flying = append(flying, request{slot, now + 2*oneWay})
		}
	}
	slices.Sort(processed)
	for i := limit; i < len(processed); i++ {
		require.GreaterOrEqual(t, processed[i]-processed[i-limit], second, "%d requests within less than a second at %v", limit+1, processed[i])
	}
}

package ratelimits_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

// takeGlobal takes a slot. The test fails if no slot is free.
func takeGlobal(t *testing.T, g *ratelimits.Global, now time.Duration) ratelimits.Slot {
	t.Helper()
	slot, wait := g.Take(now)
	require.Zero(t, wait, "wait at %v", now)
	return slot
}

// globalWaits asserts that no slot is free now, and that the wait is as long as expected.
func globalWaits(t *testing.T, g *ratelimits.Global, now, want time.Duration) {
	t.Helper()
	slot, wait := g.Take(now)
	require.Equal(t, want, wait, "wait at %v", now)
	require.Zero(t, slot, "no slot may be taken")
	require.Equal(t, want, g.Wait(now))
}

// This test shows one readable sequence of what TestGlobalDoesWhatTheSimpleVersionDoes checks with random sequences.
func TestGlobalSlotComesBackASecondAfterItsAnswer(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(2)
	assert.True(t, g.Idle(0), "new")
	early, late := takeGlobal(t, g, 0), takeGlobal(t, g, 0)
	assert.False(t, g.Idle(0), "in flight")
	globalWaits(t, g, 0, 2*second) // whatever the outcomes are, the wait is at most that long
	g.Report(300*ms, late)
	g.Report(100*ms, early)
	globalWaits(t, g, 200*ms, 900*ms)
	unused := takeGlobal(t, g, 1100*ms)
	globalWaits(t, g, 1100*ms, 200*ms)
	g.Return(unused)
	forced := g.Force(1100 * ms)
	globalWaits(t, g, 1100*ms, 200*ms)
	g.Lost(forced)
	assert.Equal(t, 2*second, g.Busy(1100*ms), "the lost request may not have reached the server yet")
	assert.Zero(t, g.Busy(3100*ms))
	assert.True(t, g.Idle(3100*ms))
}

// simpleGlobal is a simple and slow version of ratelimits.Global, which looks at every slot each time.
type simpleGlobal struct {
	limit int
	slots []*simpleSlot
	trips []time.Duration
}

type simpleSlot struct {
	slot       ratelimits.Slot
	sent       time.Duration
	over       bool // its outcome is known
	answered   time.Duration
	isAnswered bool // the answer came so early that it decides when the slot is free
}

func (s *simpleGlobal) credit() time.Duration {
	if len(s.trips) < max(2*s.limit, 100) {
		return 0
	}
	return slices.Min(s.trips) / 4 * 3
}

func (s *simpleGlobal) back(slot *simpleSlot) time.Duration {
	if slot.isAnswered {
		return slot.answered + second - s.credit()
	}
	return slot.sent + 2*second
}

// wait returns the wait for a slot. It also removes slots that are free again.
func (s *simpleGlobal) wait(now time.Duration) time.Duration {
	s.slots = slices.DeleteFunc(s.slots, func(slot *simpleSlot) bool { return s.back(slot) <= now })
	if len(s.slots) < s.limit {
		return 0
	}
	var backs []time.Duration
	for _, slot := range s.slots {
		backs = append(backs, s.back(slot))
	}
	slices.Sort(backs)
	return backs[len(backs)-s.limit] - now
}

func (s *simpleGlobal) report(now time.Duration, slot *simpleSlot) {
	if slot.over || !slices.Contains(s.slots, slot) {
		return
	}
	slot.over = true
	s.trips = append(s.trips, now-slot.sent)
	if now+second-s.credit() < slot.sent+2*second {
		slot.isAnswered, slot.answered = true, now
	}
}

func TestGlobalDoesWhatTheSimpleVersionDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		g, simple := ratelimits.NewGlobal(limit), &simpleGlobal{limit: limit}
		now := second
		for range rapid.IntRange(0, 150).Draw(t, "trips") { // round trips that the limit measures first
			slot := g.Force(now)
			simple.slots = append(simple.slots, &simpleSlot{slot: slot, sent: now})
			trip := time.Duration(rapid.IntRange(20, 40).Draw(t, "trip")) * ms
			g.Report(now+trip, slot)
			simple.report(now+trip, simple.slots[len(simple.slots)-1])
			now += 3 * second
			require.Equal(t, simple.wait(now), g.Wait(now))
		}
		var all []*simpleSlot
		for range 100 {
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0, 1, 2:
				slot, wait := g.Take(now)
				require.Equal(t, simple.wait(now), wait)
				if wait == 0 {
					all = append(all, &simpleSlot{slot: slot, sent: now})
					simple.slots = append(simple.slots, all[len(all)-1])
				}
			case 3:
				all = append(all, &simpleSlot{slot: g.Force(now), sent: now})
				simple.slots = append(simple.slots, all[len(all)-1])
			case 4:
				now += time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * ms
			case 5:
				if rapid.IntRange(0, 5).Draw(t, "resize") == 0 {
					simple.limit = rapid.IntRange(1, 6).Draw(t, "limit")
					g.Resize(simple.limit)
				}
			default:
				if len(all) == 0 {
					continue
				}
				slot := rapid.SampledFrom(all).Draw(t, "slot") // perhaps a slot that was given back before
				g.Return(ratelimits.Slot{})                    // belongs to no request
				simple.wait(now)
				switch g.Wait(now); rapid.IntRange(0, 6).Draw(t, "outcome") {
				case 0:
					g.Lost(slot.slot)
					slot.over = true
				case 1:
					g.Return(slot.slot)
					if !slot.over {
						simple.slots = slices.DeleteFunc(simple.slots, func(other *simpleSlot) bool { return other == slot })
					}
				default:
					g.Report(now, slot.slot)
					simple.report(now, slot)
				}
			}
			require.Equal(t, simple.wait(now), g.Wait(now))
			require.Equal(t, len(simple.slots) == 0, g.Idle(now))
		}
	})
}

// A very high limit must not need memory. Only used slots need memory.
func TestGlobalLimitCanBeAsHighAsANumberIs(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1 << 30, 1 << 40, math.MaxInt} {
		g := ratelimits.NewGlobal(limit)
		for range 1000 {
			takeGlobal(t, g, 0)
		}
		assert.GreaterOrEqual(t, g.Limit(), 1_000_000_000)
		g.Resize(limit)
		g.Resize(1)
		globalWaits(t, g, 0, 2*second)
		takeGlobal(t, g, 2*second)
	}
}

func TestGlobalHoldIsOnlyEverExtended(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(5)
	g.Hold(0, 10*second)
	g.Hold(1*second, 2*second)
	g.Hold(1*second, 0)
	g.Hold(1*second, -second)
	globalWaits(t, g, 2*second, 8*second)
	require.NotZero(t, g.Force(2*second), "a forced request takes a slot during a hold")
	g.Hold(2*second, 20*second)
	assert.Equal(t, 20*second, g.HoldWait(2*second))
	globalWaits(t, g, 21*second, 1*second)
	assert.False(t, g.Idle(21*second))
	assert.Zero(t, g.HoldWait(22*second))
	takeGlobal(t, g, 22*second)

	for _, hold := range []time.Duration{100 * 365 * 24 * time.Hour, math.MaxInt64} {
		g := ratelimits.NewGlobal(1)
		g.Hold(second, hold)
		globalWaits(t, g, second, 24*time.Hour) // a hold lasts at most a day
		takeGlobal(t, g, 24*time.Hour+second)
	}
}

func TestGlobalWithoutALimitOnlyHolds(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, -1, -50} {
		g := ratelimits.NewGlobal(limit)
		assert.Zero(t, g.Limit())
		for range 10_000 {
			slot := takeGlobal(t, g, 0)
			g.Report(0, slot)
		}
		assert.Zero(t, g.Force(0))
		assert.True(t, g.Idle(0))

		g.Hold(0, second)
		globalWaits(t, g, 0, second)
		assert.False(t, g.Idle(0))
		takeGlobal(t, g, second)
		assert.True(t, g.Idle(second))
	}
}

// pace sends requests as fast as a global limit allows. It returns the times at which the server processed the
// requests, in ascending order.
func pace(g *ratelimits.Global, requests int, travel travel) []time.Duration {
	type answer struct {
		at   time.Duration
		slot ratelimits.Slot
	}
	var answers []answer // earliest first
	var processed []time.Duration
	now := time.Duration(0)
	for len(processed) < requests {
		for len(answers) > 0 && answers[0].at <= now {
			g.Report(answers[0].at, answers[0].slot)
			answers = answers[1:]
		}
		slot, wait := g.Take(now)
		if wait > 0 {
			now += wait
			if len(answers) > 0 {
				now = min(now, answers[0].at)
			}
			continue
		}
		way := travel()
		processed = append(processed, now+way.there)
		a := answer{now + way.there + way.back, slot}
		i, _ := slices.BinarySearchFunc(answers, a, func(x, y answer) int { return int(x.at - y.at) })
		answers = slices.Insert(answers, i, a)
	}
	slices.Sort(processed)
	return processed
}

// neverMoreThan asserts that no interval of a second contains more requests than the limit.
func neverMoreThan(t require.TestingT, limit int, processed []time.Duration) {
	for i := limit; i < len(processed); i++ {
		first, last := processed[i-limit], processed[i]
		require.GreaterOrEqual(t, last-first, second, "%d requests between %v and %v", limit+1, first, last)
	}
}

// slowFirst makes the first n trips slow, as if connections had to be opened.
func slowFirst(n int, slow, then travel) travel {
	return func() trip {
		if n--; n >= 0 {
			return slow()
		}
		return then()
	}
}

func TestNoServersSecondSeesMoreThanTheGlobalLimit(t *testing.T) {
	t.Parallel()
	oneWay := func(there, back time.Duration) travel { return func() trip { return trip{there, back} } }
	for name, travelOf := range map[string]func(limit int) travel{
		"no latency":          func(int) travel { return steady(0) },
		"20 ms":               func(int) travel { return steady(20 * ms) },
		"100 ms":              func(int) travel { return steady(100 * ms) },
		"a second":            func(int) travel { return steady(second) },
		"slow way there":      func(int) travel { return oneWay(200*ms, 5*ms) },
		"slow way back":       func(int) travel { return oneWay(5*ms, 200*ms) },
		"very late answers":   func(int) travel { return oneWay(10*ms, 5*second) },
		"jitter":              func(int) travel { return between(1, 20*ms, 60*ms) },
		"wild jitter":         func(int) travel { return between(2, 1*ms, 600*ms) },
		"slow first requests": func(limit int) travel { return slowFirst(limit, oneWay(700*ms, 100*ms), steady(50*ms)) },
		"slow first answers":  func(limit int) travel { return slowFirst(limit, oneWay(10*ms, 900*ms), steady(20*ms)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []int{1, 5, 50} {
				neverMoreThan(t, limit, pace(ratelimits.NewGlobal(limit), 12*limit, travelOf(limit)))
			}
		})
	}
}

// Before enough round trips are known, requests must not exceed the limit, even with the worst sequence of latencies.
func TestGlobalPromisesNothingBeforeItKnowsTheLatency(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		there := rapid.IntRange(0, 1000) // ms; if requests travelled longer, the slot might be used again too early
		back := rapid.IntRange(0, 3000)
		processed := pace(ratelimits.NewGlobal(limit), 2*limit, func() trip {
			return trip{time.Duration(there.Draw(t, "there")) * ms, time.Duration(back.Draw(t, "back")) * ms}
		})
		neverMoreThan(t, limit, processed)
	})
}

func TestGlobalLimitIsNearlyUsedUpUnderSteadyLatency(t *testing.T) {
	t.Parallel()
	const limit = 50
	for roundTrip, atLeast := range map[time.Duration]float64{0: 1, 40 * ms: 0.99, 100 * ms: 0.97, 200 * ms: 0.95} {
		g := ratelimits.NewGlobal(limit)
		processed := pace(g, 30*limit, steady(roundTrip))
		warm := processed[5*limit:]
		rate := float64(len(warm)-limit) / (warm[len(warm)-limit] - warm[0]).Seconds()
		assert.GreaterOrEqual(t, rate/limit, atLeast, "of the limit, with round trips of %v", roundTrip)
		neverMoreThan(t, limit, processed)
	}
}

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

// takeGlobal takes a slot that has to be there.
func takeGlobal(t *testing.T, g *ratelimits.Global, now time.Duration) ratelimits.Slot {
	t.Helper()
	slot, wait := g.Take(now)
	require.Zero(t, wait, "wait at %v", now)
	return slot
}

// globalWaits says that there is no slot now, and for how long.
func globalWaits(t *testing.T, g *ratelimits.Global, now, want time.Duration) {
	t.Helper()
	slot, wait := g.Take(now)
	require.Equal(t, want, wait, "wait at %v", now)
	require.Zero(t, slot, "a slot was taken all the same")
	require.Equal(t, want, g.Wait(now))
}

func TestGlobalSlotComesBackASecondAfterItsAnswer(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(2)
	early, late := takeGlobal(t, g, 0), takeGlobal(t, g, 0)
	g.Report(300*ms, late)
	g.Report(100*ms, early)
	globalWaits(t, g, 200*ms, 900*ms)
	takeGlobal(t, g, 1100*ms)
	globalWaits(t, g, 1100*ms, 200*ms)
	takeGlobal(t, g, 1300*ms)
}

func TestGlobalSlotReturnedUnusedCanBeTakenAtOnce(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	slot := takeGlobal(t, g, 5*second)
	globalWaits(t, g, 5*second, 2*second)
	g.Return(slot)
	again := takeGlobal(t, g, 5*second)

	g.Return(slot)
	assert.Equal(t, 2*second, g.Wait(5*second), "returned twice, it takes nothing from the one who has it now")
	g.Return(again)
	assert.Zero(t, g.Wait(5*second))
	assert.True(t, g.Idle(5*second))
}

func TestGlobalSlotReportedTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	slot := takeGlobal(t, g, 0)
	g.Report(100*ms, slot)
	g.Report(900*ms, slot)
	globalWaits(t, g, 900*ms, 200*ms)
	g.Return(slot)
	globalWaits(t, g, 900*ms, 200*ms)
}

func TestGlobalSlotIsKeptForTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	slow := takeGlobal(t, g, 0)
	globalWaits(t, g, 500*ms, 1500*ms)
	next := takeGlobal(t, g, 2*second)

	g.Report(2100*ms, slow)
	g.Return(slow)
	globalWaits(t, g, 2100*ms, 1900*ms) // the late outcome gives back what is no longer its own
	g.Report(2200*ms, next)
	globalWaits(t, g, 2200*ms, second)
}

// What round trips add to the distance of two requests is only added between those that are answered.
func TestGlobalSlotIsKeptForTwoSecondsAlsoWhenTheLatencyIsKnown(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	now := time.Duration(0)
	for range 150 {
		slot := takeGlobal(t, g, now)
		g.Report(now+400*ms, slot)
		now += 2 * second
	}
	slow := takeGlobal(t, g, now)
	globalWaits(t, g, now+100*ms, 1900*ms)
	g.Report(now+1950*ms, slow)
	globalWaits(t, g, now+1950*ms, 50*ms)
}

func TestGlobalLateAnswerCostsNoMoreThanNone(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	g.Report(1900*ms, takeGlobal(t, g, 0))
	globalWaits(t, g, 1900*ms, 100*ms)
}

func TestGlobalForcedRequestMakesTheOthersWait(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(2)
	first, other := takeGlobal(t, g, 0), takeGlobal(t, g, 0)
	g.Report(0, first)
	g.Report(0, other)

	forced := g.Force(500 * ms) // a second has room for two, and this is the third
	require.NotZero(t, forced)
	g.Report(500*ms, forced)
	takeGlobal(t, g, second)
	globalWaits(t, g, second, 500*ms)
	takeGlobal(t, g, 1500*ms)
}

// The slot of a request in flight is its own, however many are sent in any case meanwhile.
func TestGlobalForcedRequestsTakeNoSlotFromThoseInFlight(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(2)
	slow, quick := takeGlobal(t, g, 0), takeGlobal(t, g, 0)
	for range 5 {
		g.Report(100*ms, g.Force(100*ms))
	}
	g.Report(300*ms, quick)
	globalWaits(t, g, 300*ms, 1000*ms) // until the quick one's is back, and those that were forced
	takeGlobal(t, g, 1300*ms)
	globalWaits(t, g, 1300*ms, 700*ms)
	g.Report(1900*ms, slow)
	takeGlobal(t, g, 2*second)
}

func TestGlobalReturnOfAForcedRequestLetsTheOthersGo(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	forced, other := g.Force(0), g.Force(0)
	g.Return(forced)
	globalWaits(t, g, 0, 2*second)
	g.Return(other)
	g.Return(other)
	takeGlobal(t, g, 0)
}

// Whoever sets a limit that nobody reaches pays for what is used of it.
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

// A server that counts all there are, forced ones too, in seconds of any phase, never sees one too many that was not
// forced.
func TestGlobalLimitMakesRoomForWhatIsForced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		g := ratelimits.NewGlobal(limit)
		g.Report(0, g.Force(0)) // no round trip may count for the distance of two requests
		now := second
		type flight struct {
			slot ratelimits.Slot
			sent time.Duration
		}
		var flying []flight
		var done []time.Duration // when those ended that did
		for range 100 {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now += time.Duration(rapid.IntRange(1, 600).Draw(t, "ms")) * ms
			case 1:
				flying = append(flying, flight{g.Force(now), now})
			case 2:
				slot, wait := g.Take(now)
				if wait > 0 {
					continue
				}
				counted := 0
				for _, f := range flying {
					if now-f.sent < 2*second {
						counted++
					}
				}
				for _, at := range done {
					if now-at < second {
						counted++
					}
				}
				require.Less(t, counted, limit)
				flying = append(flying, flight{slot, now})
			case 3:
				if len(flying) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				g.Report(now, flying[i].slot)
				if now-flying[i].sent < second { // later outcomes are bounded by patience
					done = append(done, now)
				}
				flying = slices.Delete(flying, i, i+1)
			}
		}
	})
}

func TestGlobalForceTakesThroughAHold(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	g.Hold(0, 10*second)
	forced := g.Force(0)
	require.NotZero(t, forced)
	globalWaits(t, g, 0, 10*second)
	g.Report(9500*ms, forced) // long forgotten: it has waited out its patience
	takeGlobal(t, g, 10*second)
}

func TestGlobalHoldIsOnlyEverExtended(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(5)
	g.Hold(0, 10*second)
	g.Hold(1*second, 2*second)
	g.Hold(1*second, 0)
	g.Hold(1*second, -second)
	globalWaits(t, g, 2*second, 8*second)
	g.Hold(2*second, 20*second)
	assert.Equal(t, 20*second, g.HoldWait(2*second))
	globalWaits(t, g, 21*second, 1*second)
	assert.Zero(t, g.HoldWait(22*second))
	takeGlobal(t, g, 22*second)
}

func TestGlobalHoldIsNeverLongerThanADay(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]time.Duration{
		"years":            100 * 365 * 24 * time.Hour,
		"no time is later": math.MaxInt64,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := ratelimits.NewGlobal(1)
			g.Hold(second, hold)
			globalWaits(t, g, second, 24*time.Hour)
			takeGlobal(t, g, 24*time.Hour+second)
		})
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

func TestGlobalIsIdleWhenNothingIsLostByForgettingIt(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(3)
	assert.Equal(t, 3, g.Limit())
	assert.True(t, g.Idle(0), "new")

	slot := takeGlobal(t, g, 0)
	assert.False(t, g.Idle(0), "in flight")
	g.Return(slot)
	assert.True(t, g.Idle(0), "given back unused")

	slot = takeGlobal(t, g, 0)
	g.Report(100*ms, slot)
	assert.False(t, g.Idle(1099*ms), "cooling")
	assert.True(t, g.Idle(1100*ms))

	g.Hold(2*second, second)
	assert.False(t, g.Idle(2999*ms), "held")
	assert.True(t, g.Idle(3*second))
}

func TestGlobalZeroSlotIsNoSlot(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	takeGlobal(t, g, 0)
	g.Report(100*ms, ratelimits.Slot{})
	g.Return(ratelimits.Slot{})
	assert.Equal(t, 1900*ms, g.Wait(100*ms))
}

// Who gives up at once does not know when the request arrives, so nobody may count on its being over.
func TestRequestThatWasGivenUpKeepsItsGlobalSlot(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	slot, _ := g.Take(0)
	g.Lost(slot)
	assert.Equal(t, 2*time.Second, g.Wait(0))
	g.Report(time.Second, slot)
	assert.Equal(t, time.Second, g.Wait(time.Second), "its outcome was known to be lost")
	second, wait := g.Take(2 * time.Second)
	assert.Zero(t, wait)
	g.Lost(ratelimits.Slot{})
	g.Lost(slot)
	g.Report(2*time.Second, second)
	assert.Equal(t, time.Second, g.Wait(2*time.Second))
}

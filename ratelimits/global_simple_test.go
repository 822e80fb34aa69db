package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

// simpleGlobal is ratelimits.Global as it would be, did its speed not matter: every slot by itself, looked at each
// time.
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
	isAnswered bool // in time
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

// wait also forgets what has come back.
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
		for range rapid.IntRange(0, 150).Draw(t, "trips") { // that it knows already
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
				slot := rapid.SampledFrom(all).Draw(t, "slot") // it may be given back for the second time
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

package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestGlobalLimitThatGrowsHasMoreSlotsAtOnce(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(1)
	takeGlobal(t, g, 0)
	globalWaits(t, g, 0, 2*second)
	g.Resize(3)
	assert.Equal(t, 3, g.Limit())
	takeGlobal(t, g, 0)
	takeGlobal(t, g, 0)
	globalWaits(t, g, 0, 2*second)
}

func TestGlobalLimitThatShrinksGivesUpWhatIsFreeFirst(t *testing.T) {
	t.Parallel()
	g := ratelimits.NewGlobal(4)
	first, second_ := takeGlobal(t, g, 0), takeGlobal(t, g, 0)
	g.Resize(2)
	globalWaits(t, g, 0, 2*second)
	g.Resize(1)
	g.Report(100*ms, first)
	g.Report(300*ms, second_)
	at := 300 * ms
	for at += ms; g.Wait(at) > 0; at += ms {
	}
	takeGlobal(t, g, at)
	assert.NotZero(t, g.Wait(at), "there is only one now")
}

// However often the limit changes, no second sees more requests than the largest limit that counted in it.
func TestGlobalLimitThatChangesIsNeverExceeded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := ratelimits.NewGlobal(3)
		now := time.Duration(0)
		type change struct {
			at    time.Duration
			limit int
		}
		changes := []change{{0, 3}}
		var sent []time.Duration
		var flying []ratelimits.Slot
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				slot, wait := g.Take(now)
				if wait > 0 {
					t.Skip("none is free")
				}
				sent, flying = append(sent, now), append(flying, slot)
			},
			"report": func(t *rapid.T) {
				if len(flying) == 0 {
					t.Skip("nothing is in flight")
				}
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				g.Report(now, flying[i])
				flying = slices.Delete(flying, i, i+1)
			},
			"resize": func(t *rapid.T) {
				limit := rapid.IntRange(1, 6).Draw(t, "limit")
				g.Resize(limit)
				require.Equal(t, limit, g.Limit())
				changes = append(changes, change{now, limit})
			},
			"pass": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(1, 700).Draw(t, "ms")) * ms
			},
			"": func(t *rapid.T) {
				most := 0
				for i, c := range changes {
					if i+1 == len(changes) || changes[i+1].at > now-second {
						most = max(most, c.limit)
					}
				}
				count := 0
				for _, at := range sent {
					if at > now-second {
						count++
					}
				}
				require.LessOrEqual(t, count, most)
			},
		})
	})
}

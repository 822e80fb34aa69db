package fleet_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/internal/fleet"
)

// everything is a server without other limits than the global one of 50 a second.
func everything(phase time.Duration) discordsim.Config {
	return discordsim.Config{
		Default: &discordsim.Rule{Path: "**", Quota: discordsim.Unlimited()}, Latency: wide,
		Global: discordsim.Aligned(50, time.Second, phase),
	}
}

// Together the processes send as much as a single process may, and no more.
func TestGlobalLimitIsDividedAndUsedUp(t *testing.T) {
	t.Parallel()
	const count = 1200
	for _, processes := range []int{1, 2, 4} {
		for _, phase := range []time.Duration{0, 350 * time.Millisecond} {
			inBubble(t, fleet.Config{Processes: processes, Discord: everything(phase)}, func(t *testing.T, f *fleet.Fleet) {
				for _, p := range f.Processes {
					callers(t, f, p, 100/processes, count/100, fleet.Request{Method: "GET", Path: "/users/@me"})
				}
				took := finish(t, f, time.Hour)
				plan, err := discordsim.Certain(discordsim.Conditions{RoundTrip: shortest},
					discordsim.Work{Quota: discordsim.Unlimited(), Count: count, Route: "one"})
				require.NoError(t, err)
				report := f.Discord.Report()
				t.Logf("%d processes: %.3f times the ideal, %d refused, at most %d in a second",
					processes, took.Seconds()/plan.Makespan.Seconds(), report.Refused.Total(), f.Busiest(time.Second))
				assert.Zero(t, report.Refused.Total())
				assert.LessOrEqual(t, f.Busiest(time.Second), 50)
				assert.Less(t, took.Seconds()/plan.Makespan.Seconds(), 1.2)
			})
		}
	}
}

// The parts follow the demand: the part of an idle process goes to the other processes.
func TestGlobalLimitFollowsTheNeed(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{Processes: 4, Discord: everything(0)}, func(t *testing.T, f *fleet.Fleet) {
		request := fleet.Request{Method: "GET", Path: "/users/@me"}
		for _, p := range f.Processes { // all get a part
			callers(t, f, p, 5, 5, request)
		}
		_, err := f.Wait(time.Hour)
		require.NoError(t, err)
		for _, busy := range []int{0, 2} {
			start := f.Now()
			callers(t, f, f.Processes[busy], 60, 10, request)
			_, err := f.Wait(time.Hour)
			require.NoError(t, err)
			took := f.Now() - start
			t.Logf("process %d alone: 600 requests in %v", busy, took)
			assert.Less(t, took, 16*time.Second, "12 s at the full rate, and what it takes to get it")
		}
		assert.Zero(t, f.Discord.Report().Refused.Total())
		assert.LessOrEqual(t, f.Busiest(time.Second), 50)
	})
}

// A process that dies with a part gives it back, later.
func TestGlobalPartOfTheDead(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{Processes: 2, Discord: everything(0)}, func(t *testing.T, f *fleet.Fleet) {
		request := fleet.Request{Method: "GET", Path: "/users/@me"}
		f.Go(func() {
			time.Sleep(3 * time.Second)
			f.Processes[0].Kill()
		})
		for range 60 {
			f.Go(func() {
				for f.Processes[0].Do(t.Context(), request).Err == nil { //nolint:revive // until it dies
				}
			})
		}
		callers(t, f, f.Processes[1], 60, 15, request)
		took := finish(t, f, time.Hour)
		t.Logf("took %v", took)
		// 3 s with a half, 4 s until the part is free, the rest with all.
		assert.Less(t, took, 26*time.Second)
		assert.Zero(t, f.Discord.Report().Refused.Total())
		assert.LessOrEqual(t, f.Busiest(time.Second), 50)
	})
}

// needs returns the demands for the global limit that the processes have reported.
func needs(f *fleet.Fleet) (all []int) {
	for _, key := range f.Engine.Keys() {
		if !strings.Contains(key, ":g:") {
			continue
		}
		value := f.Engine.Value(key)
		_, text, _ := strings.Cut(value, " ")
		var division struct{ Users map[string]struct{ Need int } }
		if json.Unmarshal([]byte(text), &division) == nil {
			for _, user := range division.Users {
				all = append(all, user.Need)
			}
		}
	}
	return all
}

// The demand of a process is the requests that it sends and the requests that wait there. Each request counts once,
// however often it asks for a permit.
func TestNeedCountsEachRequestOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, fleet.Config{Processes: 2, Discord: everything(0)}, func(t *testing.T, f *fleet.Fleet) {
		request := fleet.Request{Method: "GET", Path: "/users/@me"}
		busy, other := f.Processes[0], f.Processes[1]
		assert.Equal(t, 200, other.Do(t.Context(), request).Status)
		time.Sleep(time.Minute)
		callers(t, f, busy, 200, 3, request)
		time.Sleep(5 * time.Second)
		const burst = 10
		callers(t, f, other, burst, 1, request)
		most := 0
		for range 100 {
			time.Sleep(20 * time.Millisecond)
			if needs := needs(f); len(needs) == 2 {
				most = max(most, slices.Min(needs))
			}
		}
		assert.LessOrEqual(t, most, burst)
		assert.Positive(t, most)
		finish(t, f, time.Hour)
	})
}

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

// everything returns a Discord whose only limit is a global one of 50 requests a second.
func everything(phase time.Duration) discordsim.Config {
	return discordsim.Config{
		Default: &discordsim.Rule{Path: "**", Quota: discordsim.Unlimited()}, Latency: wide,
		Global: discordsim.Aligned(50, time.Second, phase),
	}
}

// All processes together must send nearly as many requests as the global limit allows, and no more.
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

// needs returns the numbers of requests for which the processes have reported that they need the global limit.
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

// A process's need is the number of its requests that wait or are in flight. Each request must count only once, even if
// the process asks for it several times.
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

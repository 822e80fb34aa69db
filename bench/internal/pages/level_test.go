package pages

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const ms = time.Millisecond

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// used makes a limit that took requests at some times.
func used(t *testing.T, quota discordsim.Quota, times ...time.Duration) *trace.Limit {
	t.Helper()
	counter, err := discordsim.NewCounter(quota)
	require.NoError(t, err)
	limit := &trace.Limit{Class: discordsim.ClassUser, Quota: quota}
	for _, at := range times {
		taken := counter.Take(start.Add(at), discordsim.Own)
		state := counter.State(start.Add(at))
		limit.Uses = append(limit.Uses, trace.Use{At: at, Taken: taken, Used: state.Limit - state.Remaining, ResetAfter: state.ResetAfter})
	}
	return limit
}

// on is the level of a line at a time, the later one where it jumps.
func on(line []moment, at time.Duration) float64 {
	for i := len(line) - 1; i >= 0; i-- {
		if line[i].at > at {
			continue
		}
		if i+1 == len(line) || line[i].at == at {
			return line[i].used
		}
		part := float64(at-line[i].at) / float64(line[i+1].at-line[i].at)
		return line[i].used + part*(line[i+1].used-line[i].used)
	}
	return 0
}

// Whatever the counter says at any time, the line says too.
func TestLevelsAreThoseOfTheCounter(t *testing.T) {
	t.Parallel()
	const end = 5 * time.Second
	for name, quota := range map[string]discordsim.Quota{
		"fixed":   discordsim.Fixed(5, 700*ms),
		"aligned": discordsim.Aligned(5, 700*ms, 100*ms),
		"sliding": discordsim.Sliding(5, 700*ms),
		"leaky":   discordsim.Leaky(5, 700*ms),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(1, 2))
			var times []time.Duration
			for at := time.Duration(0); at < end; at += time.Duration(chance.Int64N(int64(300 * ms))) {
				times = append(times, at)
			}
			line := levels(used(t, quota, times...), end)
			for i := 1; i < len(line); i++ {
				require.GreaterOrEqual(t, line[i].at, line[i-1].at)
			}
			assert.Equal(t, end, line[len(line)-1].at)
			counter, err := discordsim.NewCounter(quota)
			require.NoError(t, err)
			next := 0
			for at := 3 * ms; at < end; at += 7 * ms {
				for next < len(times) && times[next] <= at {
					counter.Take(start.Add(times[next]), discordsim.Own)
					next++
				}
				state := counter.State(start.Add(at))
				want, tolerance := float64(state.Limit-state.Remaining), 1e-6
				if quota.Kind == discordsim.KindLeaky {
					want = float64(state.ResetAfter) / leakInterval(quota)
				}
				assert.InDelta(t, want, on(line, at), tolerance, "at %v", at)
			}
		})
	}
}

func TestWindowsAreThoseThatWereOpen(t *testing.T) {
	t.Parallel()
	second := time.Second
	times := []time.Duration{100 * ms, 200 * ms, 1500 * ms, 2400 * ms, 2600 * ms}
	assert.Equal(t, []window{{100 * ms, 1100 * ms}, {1500 * ms, 2500 * ms}, {2600 * ms, 3600 * ms}},
		windows(used(t, discordsim.Fixed(2, second), times...)))
	assert.Equal(t, []window{{0, second}, {second, 2 * second}, {2 * second, 3 * second}},
		windows(used(t, discordsim.Aligned(2, second, 0), times...)))
	assert.Empty(t, windows(used(t, discordsim.Sliding(2, second), times...)))
}

func TestLimitWithoutUseIsEmpty(t *testing.T) {
	t.Parallel()
	for _, quota := range []discordsim.Quota{{}, discordsim.Fixed(1, ms), discordsim.Sliding(1, ms), discordsim.Leaky(1, ms)} {
		limit := &trace.Limit{Quota: quota}
		assert.Zero(t, on(levels(limit, time.Second), time.Second/2))
		assert.Empty(t, windows(limit))
	}
}

package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestAPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		assert.NoError(t, Pause(ctx, time.Second))
		assert.Equal(t, time.Second, time.Since(start))
		assert.NoError(t, Pause(ctx, -time.Hour))
		assert.ErrorIs(t, Pause(ctx, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.ErrorIs(t, Pause(ctx, 0), context.DeadlineExceeded)
	})
}

func TestStallsOfTheMachineAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		result := WatchStalls()
		time.Sleep(time.Minute)
		stalls := result()
		assert.Zero(t, stalls.Longest, "virtual time is never late")
		assert.False(t, stalls.Disturbed())
		assert.Equal(t, time.Minute, stalls.over)
	})
	assert.False(t, Stalls{Longest: 20 * ms, Total: 100 * ms, over: 10 * time.Second}.Disturbed())
	assert.True(t, Stalls{Longest: 20 * ms, Total: 101 * ms, over: 10 * time.Second}.Disturbed(), "more than a hundredth of the time")
}

// The simulator's answers are planned: one that takes longer than it may was held up.
func TestAnAnswerThatComesLateIsAStall(t *testing.T) {
	t.Parallel()
	s := burstOf(func(c *discordsim.Config) {
		c.Latency = discordsim.Latency{RoundTrip: 20 * ms, Jitter: 10 * ms}
		c.Faults = []discordsim.Fault{{Nth: []int{3}, Delay: 70 * ms}}
	})
	s.Targets = Targets{Certain: 0.94} // 65 ms more than the ideal, 44 ms less than it takes
	result := inVirtualTime(t, s, Settings{})
	assert.InDelta(t, 60*ms, result.Stalls.Longest, float64(20*ms))
	assert.NotEmpty(t, result.missed())
	assert.Equal(t, report.Stalled, result.Report(report.Demand{}).Verdict.Status)
	assert.Contains(t, result.Report(report.Demand{}).Verdict.Line, "this machine stalled for ")
}

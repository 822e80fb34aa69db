package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

		stalls.Answered(30*ms, 40*ms)
		assert.Zero(t, stalls.Longest, "the answer was in time")
		stalls.Answered(65*ms, 40*ms)
		assert.Equal(t, 25*ms, stalls.Longest)
		assert.True(t, stalls.Disturbed())
	})
	assert.False(t, Stalls{Longest: 20 * ms, Total: 100 * ms, over: 10 * time.Second}.Disturbed())
	assert.True(t, Stalls{Longest: 20 * ms, Total: 101 * ms, over: 10 * time.Second}.Disturbed(), "more than a hundredth of the time")
}

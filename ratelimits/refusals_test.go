package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestWaitsGrowWhileALimitRefusesAgainAndAgain(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	grown := func(most, now time.Duration) {
		wait := r.Again(now, false)
		assert.LessOrEqual(t, wait, most)
		assert.GreaterOrEqual(t, wait, most-most/8)
		assert.Equal(t, wait, r.Again(now, true), "of one moment")
	}
	for i, most := range []time.Duration{
		0, 0, 250 * ms, 500 * ms, second, 2 * second, 4 * second, 8 * second, 16 * second, 32 * second, time.Minute, time.Minute,
	} {
		grown(most, time.Duration(i)*second)
	}
	for i := range 300 {
		grown(time.Minute, time.Hour+time.Duration(i)*second)
	}
	r.Accepted(2 * time.Hour)
	assert.Zero(t, r.Row())
	assert.Zero(t, r.Again(3*time.Hour, false))
}

// Somebody else who uses up the limit for half of every second is not in step with the waits.
func TestGrownWaitsKeepNoStepWithOthers(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	now, through := time.Duration(0), 0
	for range 100 {
		now += max(r.Again(now, false), 250*ms)
		if now%second >= second/2 {
			through++
		}
	}
	assert.Greater(t, through, 20)
}

// What was under way when a limit refused another one proves nothing.
func TestSuccessOfARequestFromBeforeARefusalEndsNoRow(t *testing.T) {
	t.Parallel()
	var r ratelimits.Refusals
	for i := range 3 {
		r.Again(time.Duration(i+1)*second, false)
		r.Accepted(500 * ms)
	}
	assert.Equal(t, 3, r.Row())
	r.Accepted(3 * second)
	assert.Zero(t, r.Row())
}

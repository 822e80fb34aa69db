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
	var waits []time.Duration
	for i := range 12 {
		waits = append(waits, r.Again(time.Duration(i)*second, false))
		assert.Equal(t, waits[i], r.Again(time.Duration(i)*second, true), "of one moment")
	}
	assert.Equal(t, []time.Duration{0, 0, 250 * ms, 500 * ms, second, 2 * second, 4 * second}, waits[:7])
	assert.Equal(t, time.Minute, waits[11])
	for range 300 {
		assert.Equal(t, time.Minute, r.Again(time.Hour, false))
	}
	r.Accepted(time.Hour)
	assert.Zero(t, r.Row())
	assert.Zero(t, r.Again(2*time.Hour, false))
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

package ratelimits

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newBackoff(t *testing.T, base float64, maximum, jitter time.Duration) *Backoff {
	t.Helper()
	b, err := NewBackoff(time.Second, base, maximum, jitter)
	require.NoError(t, err)
	return b
}

func TestBackoffRejectsWhatCannotBeADelay(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		unit            time.Duration
		base            float64
		maximum, jitter time.Duration
		problem         string
	}{
		"no unit":            {0, 2, s, 0, "unit is 0s"},
		"negative unit":      {-s, 2, s, 0, "unit is -1s"},
		"infinite base":      {s, math.Inf(1), s, 0, "base is +Inf"},
		"NaN base":           {s, math.NaN(), s, 0, "base is NaN"},
		"shrinking base":     {s, 0.5, s, 0, "base is 0.5"},
		"maximum below unit": {s, 2, s / 2, 0, "maximum is 500ms"},
		"negative jitter":    {s, 2, s, -1, "jitter is -1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewBackoff(c.unit, c.base, c.maximum, c.jitter)
			assert.ErrorContains(t, err, c.problem)
			assert.ErrorContains(t, err, "want")
		})
	}
}

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	t.Parallel()
	b := newBackoff(t, 2, 20*time.Second, 0)
	var got []float64
	for range 8 {
		got = append(got, b.Next().Seconds())
	}
	assert.Equal(t, []float64{1, 2, 4, 8, 16, 20, 20, 20}, got)
	b.Reset()
	for d := range b.All() {
		assert.Equal(t, time.Second, d)
		break
	}

	steep := newBackoff(t, 1e300, time.Hour, 0) // the powers of this base soon overflow
	assert.Equal(t, time.Second, steep.Next())
	for range 5 {
		assert.Equal(t, time.Hour, steep.Next())
	}
}

func TestJitterShiftsEachDelayByAtMostItself(t *testing.T) {
	t.Parallel()
	plain := newBackoff(t, 2, time.Minute, 0)
	jittered := newBackoff(t, 2, time.Minute, time.Second)
	different := false
	for range 200 {
		p, j := plain.Next(), jittered.Next()
		assert.InDelta(t, p.Seconds(), j.Seconds(), 1)
		assert.GreaterOrEqual(t, j, time.Duration(0))
		different = different || p != j
	}
	assert.True(t, different)

	jittered.random = func() float64 { return 0 } // the largest negative shift
	jittered.Reset()
	jittered.jitter = time.Minute
	assert.Equal(t, time.Duration(0), jittered.Next(), "a delay is never negative")
}

package redissim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redissim"
)

var look = &shared.Script{Name: "look", Source: `
local t = redis.call('TIME')
return {t[1] * 1000 + math.floor(t[2] / 1000)}`}

func TestKeysCanBeReadAndChanged(t *testing.T) {
	bubble(t, func(t *testing.T, s *redissim.Server) {
		s.Set("a", "1")
		s.SetForeign("b")
		assert.Equal(t, []string{"a", "b"}, s.Keys())
		assert.Equal(t, "1", s.Value("a"))
		assert.Empty(t, s.Value("b"))
		s.Set("b", "2")
		s.SetForeign("a")
		assert.Equal(t, "2", s.Value("b"))
		assert.Empty(t, s.Value("a"))
		assert.True(t, s.Evict("a"))
		assert.False(t, s.Evict("a"))
		assert.Equal(t, []string{"b"}, s.Keys())
		s.Flush()
		assert.Empty(t, s.Keys())
	})
}

func TestServersClockStepsAndRunsOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *redissim.Server) {
		clock := func() int64 {
			reply, err := s.Run(t.Context(), look, nil)
			require.NoError(t, err)
			return reply[0]
		}
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			before := clock()
			s.StepClock(step)
			assert.Equal(t, step.Milliseconds(), clock()-before)
			time.Sleep(3 * time.Second)
			assert.Equal(t, (step + 3*time.Second).Milliseconds(), clock()-before)
		}
	})
}

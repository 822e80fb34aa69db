package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

var fill = &shared.Script{Name: "fill", Source: `
redis.call('HSET', 'h', 'f', ARGV[1])
redis.call('ZADD', 'z', ARGV[1], 'm')
redis.call('SET', 's', ARGV[1])
redis.call('PEXPIRE', 'h', 5000)
redis.call('PEXPIRE', 'z', 1000)
return {}`}

var look = &shared.Script{Name: "look", Source: `
local t = redis.call('TIME')
return {tonumber(redis.call('HGET', 'h', 'f') or 0), tonumber(redis.call('ZSCORE', 'z', 'm') or 0), tonumber(redis.call('GET', 's') or 0),
  redis.call('PTTL', 'h'), redis.call('PTTL', 's'), t[1] * 1000 + math.floor(t[2] / 1000)}`}

func TestServerGoesBackToWhatItKept(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		do := func(script *shared.Script, arguments ...string) []int64 {
			reply, err := m.Run(t.Context(), script, nil, arguments...)
			require.NoError(t, err)
			return reply
		}
		do(fill, "1")
		early := m.Save()
		time.Sleep(500 * time.Millisecond)
		do(fill, "2")
		late := m.Save()
		do(fill, "3")
		assert.Equal(t, []string{"h is older", "s is older", "z is older"}, m.Restore(late))
		assert.Equal(t, []int64{2, 2, 2, 5000, -1}, do(look)[:5])
		time.Sleep(time.Second)
		assert.Equal(t, []string{"h is older", "s is older"}, m.Restore(early))
		assert.Equal(t, []int64{1, 0, 1, 3500, -1}, do(look)[:5], "the times to live have gone on")
		do(fill, "4")
		assert.Equal(t, []string{"h is older", "s is older", "z is gone"}, m.Restore(early))
		assert.Equal(t, int64(1), do(look)[0], "a second time")

		assert.Equal(t, []string{"h", "s"}, m.Keys())
		assert.True(t, m.Evict("h"))
		assert.False(t, m.Evict("h"))
		assert.Equal(t, []string{"s"}, m.Keys())
	})
}

func TestServersClockStepsAndRunsOn(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		clock := func() int64 {
			reply, err := m.Run(t.Context(), look, nil)
			require.NoError(t, err)
			return reply[5]
		}
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			before := clock()
			m.StepClock(step)
			assert.Equal(t, step.Milliseconds(), clock()-before)
			time.Sleep(3 * time.Second)
			assert.Equal(t, (step + 3*time.Second).Milliseconds(), clock()-before)
		}
	})
}

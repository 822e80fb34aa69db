package redistest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var count = &shared.Script{Name: "count", Source: `
local t = redis.call('TIME')
redis.call('PUBLISH', 'news', 'counted')
return {redis.call('INCRBY', KEYS[1], ARGV[1]), t[1] * 1000 + math.floor(t[2] / 1000)}`}

var wrong = &shared.Script{Name: "wrong", Source: `return redis.error_reply('RLKEY 1 is wrong;')`}

func bubble(t *testing.T, test func(t *testing.T, m *redistest.Memory)) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.NewMemory()
		defer m.Close()
		test(t, m)
	})
}

func run(m *redistest.Memory, timeout time.Duration) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return m.Run(ctx, count, []string{"k"}, "1")
}

func TestScriptsRunInTheTimeOfTheBubble(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		reply, err := run(m, time.Second)
		require.NoError(t, err)
		assert.Equal(t, []int64{1, time.Now().UnixMilli()}, reply)
		time.Sleep(time.Hour)
		reply, err = run(m, time.Second)
		require.NoError(t, err)
		assert.Equal(t, int64(time.Now().UnixMilli()), reply[1])
		assert.Equal(t, 2, m.Total())
	})
}

func TestCallsAreLostAndLate(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		fate := redistest.Fate{Lost: true}
		m.Decide(func(string) redistest.Fate { return fate })
		_, err := run(m, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = redistest.Fate{LostReply: true}
		_, err = run(m, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = redistest.Fate{Before: 3 * time.Second}
		_, err = run(m, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		fate = redistest.Fate{}
		reply, err := run(m, time.Second)
		require.NoError(t, err)
		assert.EqualValues(t, 2, reply[0], "the lost one did not count, nor has the late one yet")
		time.Sleep(2*time.Second + time.Millisecond)
		reply, err = run(m, time.Second)
		require.NoError(t, err)
		assert.EqualValues(t, 4, reply[0])
	})
}

func TestDownAndFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		m.SetDown(true)
		_, err := run(m, time.Second)
		require.ErrorIs(t, err, redistest.ErrDown)
		m.SetDown(false)
		m.SetFrozen(true)
		_, err = run(m, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		m.SetFrozen(false)
		synctest.Wait()
		reply, err := run(m, time.Second)
		require.NoError(t, err)
		assert.EqualValues(t, 2, reply[0])
		m.Flush()
		reply, err = run(m, time.Second)
		require.NoError(t, err)
		assert.EqualValues(t, 1, reply[0])
	})
}

func TestMessagesAndErrorsComeThrough(t *testing.T) {
	bubble(t, func(t *testing.T, m *redistest.Memory) {
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan string, 1)
		ended := make(chan error)
		go func() { ended <- m.Subscribe(ctx, "news", func(text string) { got <- text }) }()
		synctest.Wait()
		_, err := run(m, time.Second)
		require.NoError(t, err)
		assert.Equal(t, "counted", <-got)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err = m.Run(context.Background(), wrong, []string{"k"})
		require.ErrorContains(t, err, "RLKEY 1 is wrong;")
	})
}

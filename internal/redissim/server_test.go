package redissim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redissim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var count = &shared.Script{Name: "count", Source: `
local t = redis.call('TIME')
redis.call('PUBLISH', 'news', 'counted')
return {redis.call('INCRBY', KEYS[1], ARGV[1]), t[1] * 1000 + math.floor(t[2] / 1000)}`}

var wrong = &shared.Script{Name: "wrong", Source: `return redis.error_reply('RLKEY 1 is wrong;')`}

func bubble(t *testing.T, test func(t *testing.T, s *redissim.Server)) {
	synctest.Test(t, func(t *testing.T) {
		s := redissim.New()
		defer s.Close()
		test(t, s)
	})
}

func run(s *redissim.Server, timeout time.Duration) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.Run(ctx, count, []string{"k"}, "1")
}

func TestScriptsRunInTheTimeOfTheBubble(t *testing.T) {
	bubble(t, func(t *testing.T, s *redissim.Server) {
		reply, err := run(s, time.Second)
		require.NoError(t, err)
		assert.Equal(t, []int64{1, time.Now().UnixMilli()}, reply)
		time.Sleep(time.Hour)
		reply, err = run(s, time.Second)
		require.NoError(t, err)
		assert.Equal(t, int64(time.Now().UnixMilli()), reply[1])
		assert.Equal(t, 2, s.Total())
	})
}

func TestMessagesAndErrorsComeThrough(t *testing.T) {
	bubble(t, func(t *testing.T, s *redissim.Server) {
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan string, 1)
		ended := make(chan error)
		go func() { ended <- s.Subscribe(ctx, "news", func(text string) { got <- text }) }()
		synctest.Wait()
		_, err := run(s, time.Second)
		require.NoError(t, err)
		assert.Equal(t, "counted", <-got)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err = s.Run(context.Background(), wrong, []string{"k"})
		require.ErrorContains(t, err, "RLKEY 1 is wrong;")
	})
}

// scripted is a server with the engine that package shared builds on it.
type scripted struct {
	*redissim.Server
	shared.Engine
}

func TestEngineOnScriptsConforms(t *testing.T) {
	enginetest.Run(t, func(t *testing.T, test func(*testing.T, enginetest.Engine)) {
		bubble(t, func(t *testing.T, s *redissim.Server) { test(t, scripted{s, shared.OnScripts(s)}) })
	})
}

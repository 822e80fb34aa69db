package conformance_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// scripted is the engine that package shared builds from scripts on a real server.
type scripted struct {
	shared.Engine
	shared.Subscriber
	do func(words ...string)
}

func (s scripted) Set(key, text string)  { s.do("SET", key, text) }
func (s scripted) SetForeign(key string) { s.do("HSET", key, "name", "mine") }

func TestEngineOnARealServerConforms(t *testing.T) {
	precise(t)
	t.Parallel()
	server := redistest.NewEngine(t)
	client, err := redis.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	do := func(words ...string) {
		_, err := server.Do(words...)
		assert.NoError(t, err)
	}
	enginetest.Run(t, func(t *testing.T, test func(*testing.T, enginetest.Engine)) {
		do("FLUSHALL")
		test(t, scripted{shared.OnScripts(client), client, do})
	})
}

package processes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

func TestCallsOfScriptsAreAddedUp(t *testing.T) {
	t.Parallel()
	const text = "# Commandstats\r\n" +
		"cmdstat_evalsha:calls=120,usec=3450,usec_per_call=28.75,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_eval:calls=3,usec=550,usec_per_call=183.33,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_hget:calls=999,usec=999,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n" +
		"cmdstat_script|load:calls=7,usec=7,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n"
	assert.Equal(t, Effort{123, 4 * time.Millisecond}, scripts(text))
	assert.Zero(t, scripts(""))
	assert.Zero(t, scripts("cmdstat_evalsha:calls=x,usec"))
}

func TestEngineIsStartedAndEnded(t *testing.T) {
	engine := newEngine(t)
	before, err := engine.Effort(t.Context())
	require.NoError(t, err)
	command := engine.client.B().Eval().Script("return 1").Numkeys(0).Build()
	require.NoError(t, engine.client.Do(t.Context(), command).Error())
	after, err := engine.Effort(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, after.minus(before).Calls)

	require.NoError(t, engine.own.Restart(t.Context()))
	require.Eventually(t, func() bool {
		_, err = engine.Effort(t.Context())
		return err == nil
	}, 10*time.Second, time.Millisecond)
	again, err := engine.Effort(t.Context())
	require.NoError(t, err)
	assert.Equal(t, after.Calls, again.Calls, "what it did in its first life is not forgotten")

	named, err := OpenEngine(t.Context(), engine.URL())
	require.NoError(t, err)
	named.Close()
	_, err = engine.Effort(t.Context())
	assert.NoError(t, err, "somebody else's is left alone")
}

// newEngine starts one, or skips the test if none is installed.
func newEngine(t *testing.T) *Engine {
	redistest.NewEngine(t).Close() // this knows when to skip and when to fail
	engine, err := OpenEngine(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	return engine
}

func TestEngineThatCannotBeHadIsExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ServerVariable, "")
	_, err := OpenEngine(t.Context(), "")
	assert.ErrorIs(t, err, ErrNoEngine)
	assert.Contains(t, err.Error(), "-redis redis://127.0.0.1:6379")

	for _, url := range []string{"redis://me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1:port", "amqp://me:hunter2@127.0.0.1"} {
		_, err := OpenEngine(t.Context(), url)
		if assert.Error(t, err, url) {
			assert.Contains(t, err.Error(), "the server to share limits through")
			assert.NotContains(t, err.Error(), "hunter2")
		}
	}
}

func TestEngineComesBackAsItWas(t *testing.T) {
	engine := newEngine(t)
	do := func(words ...string) any {
		answer, err := engine.own.Do(words...)
		require.NoError(t, err)
		return answer
	}
	do("SET", "key", "old")
	require.NoError(t, engine.snapshot())
	do("SET", "key", "new")
	engine.own.Kill()
	require.NoError(t, engine.rollBack(t.Context()))
	assert.Equal(t, "old", do("GET", "key"))
	require.NoError(t, engine.own.Restart(t.Context()))
	assert.Nil(t, do("GET", "key"), "only once")
	assert.Error(t, engine.rollBack(t.Context()), "there is no other snapshot")
}

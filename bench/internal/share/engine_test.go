package share

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

func TestEngineIsStartedAndEnded(t *testing.T) {
	engine := newEngine(t)
	before, err := engine.effort(t.Context())
	require.NoError(t, err)
	command := engine.client.B().Eval().Script("return 1").Numkeys(0).Build()
	require.NoError(t, engine.client.Do(t.Context(), command).Error())
	after, err := engine.effort(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, after.minus(before).calls)

	named, err := openEngine(t.Context(), engine.url)
	require.NoError(t, err)
	named.close()
	_, err = engine.effort(t.Context())
	assert.NoError(t, err, "somebody else's is left alone")
}

// newEngine starts one, or skips the test if none is installed.
func newEngine(t *testing.T) *engine {
	redistest.NewEngine(t).Close() // this knows when to skip and when to fail
	engine, err := openEngine(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(engine.close)
	return engine
}

func TestEngineThatCannotBeHadIsExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ServerVariable, "")
	_, err := openEngine(t.Context(), "")
	assert.ErrorIs(t, err, errNoEngine)
	assert.Contains(t, err.Error(), "-redis redis://127.0.0.1:6379")

	for _, url := range []string{"redis://me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1:port", "amqp://me:hunter2@127.0.0.1"} {
		_, err := openEngine(t.Context(), url)
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

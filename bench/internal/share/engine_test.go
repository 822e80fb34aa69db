package share

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/redistest"
)

func TestEngineIsStartedOrSomebodyElses(t *testing.T) {
	own := newEngine(t)
	other, url, err := openEngine(t.Context(), own.URL())
	require.NoError(t, err)
	assert.Nil(t, other, "it is left alone")
	assert.Equal(t, own.URL(), url)
}

// newEngine starts one, or skips the test if none is installed.
func newEngine(t *testing.T) *redistest.Engine {
	redistest.NewEngine(t).Close() // this knows when to skip and when to fail
	engine, _, err := openEngine(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(engine.Close)
	return engine
}

func TestEngineThatCannotBeHadIsExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(redistest.ServerVariable, "")
	_, _, err := openEngine(t.Context(), "")
	assert.ErrorIs(t, err, errNoEngine)
	assert.Contains(t, err.Error(), "-redis redis://127.0.0.1:6379")

	for _, url := range []string{"redis://me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1:port", "amqp://me:hunter2@127.0.0.1"} {
		_, _, err := openEngine(t.Context(), url)
		if assert.Error(t, err, url) {
			assert.Contains(t, err.Error(), "the server to share limits through")
			assert.NotContains(t, err.Error(), "hunter2")
		}
	}
}

func TestEngineComesBackAsItWas(t *testing.T) {
	engine := newEngine(t)
	do := func(words ...string) any {
		answer, err := engine.Do(words...)
		require.NoError(t, err)
		return answer
	}
	do("SET", "key", "old")
	require.NoError(t, snapshot(engine))
	do("SET", "key", "new")
	engine.Kill()
	require.NoError(t, rollBack(t.Context(), engine))
	assert.Equal(t, "old", do("GET", "key"))
	require.NoError(t, engine.Restart(t.Context()))
	assert.Nil(t, do("GET", "key"), "only once")
	assert.Error(t, rollBack(t.Context(), engine), "there is no other snapshot")
}

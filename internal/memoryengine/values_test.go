package memoryengine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// put replaces the value of a key.
func put(t *testing.T, e *memoryengine.Engine, key, text string, life time.Duration, channels ...string) *shared.Reply {
	t.Helper()
	step := shared.Step{Key: key, Value: text, Any: true, Life: life, Channels: channels}
	reply, err := e.Exchange(t.Context(), &shared.Call{Purpose: "put", Steps: []shared.Step{step}})
	require.NoError(t, err)
	require.True(t, reply.Values[0].Replaced)
	return reply
}

func TestEngineGoesBackToWhatItKept(t *testing.T) {
	bubble(t, func(t *testing.T, e *memoryengine.Engine) {
		fill := func(n string) {
			put(t, e, "long", n+" x", 5*time.Second)
			put(t, e, "short", n+" x", time.Second)
			e.Set("always", n+" x")
		}
		fill("1")
		early := e.Save()
		time.Sleep(500 * time.Millisecond)
		fill("2")
		late := e.Save()
		fill("3")
		assert.Equal(t, []string{"always is older", "long is older", "short is older"}, e.Restore(late))
		for _, key := range []string{"always", "long", "short"} {
			assert.Equal(t, "2 x", e.Value(key))
		}
		time.Sleep(time.Second)
		assert.Equal(t, []string{"always is older", "long is older"}, e.Restore(early))
		assert.Equal(t, []string{"always", "long"}, e.Keys())
		assert.Equal(t, 3500*time.Millisecond, put(t, e, "long", "4 x", time.Second).Values[0].Life,
			"the life of a restored value counts from when it was written")
		fill("4")
		assert.Equal(t, []string{"always is older", "long is older", "short is gone"}, e.Restore(early), "restored again")
		e.Flush()
		assert.Empty(t, e.Keys())
		assert.Equal(t, []string{"always is there again", "long is there again"}, e.Restore(early))
	})
}

func TestKeysCanBeReadAndChanged(t *testing.T) {
	bubble(t, func(t *testing.T, e *memoryengine.Engine) {
		e.Set("a", "1")
		e.SetForeign("b")
		put(t, e, "c", "1 x", time.Second)
		assert.Equal(t, []string{"a", "b", "c"}, e.Keys())
		time.Sleep(time.Second)
		assert.False(t, e.Evict("c"))
		assert.Equal(t, "1", e.Value("a"))
		assert.Empty(t, e.Value("b"))
		e.Set("b", "2")
		e.SetForeign("a")
		assert.Equal(t, "2", e.Value("b"))
		assert.Empty(t, e.Value("a"))
		assert.True(t, e.Evict("a"))
		assert.False(t, e.Evict("a"))
		assert.Equal(t, []string{"b"}, e.Keys())
	})
}

func TestEnginesClockStepsAndRunsOn(t *testing.T) {
	bubble(t, func(t *testing.T, e *memoryengine.Engine) {
		clock := func() time.Duration { return put(t, e, "k", "1 x", time.Hour).Time }
		assert.Equal(t, time.Since(time.Unix(0, 0)), clock())
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
			before := clock()
			e.StepClock(step)
			assert.Equal(t, step, clock()-before)
			time.Sleep(3 * time.Second)
			assert.Equal(t, step+3*time.Second, clock()-before)
		}
		put(t, e, "k", "2 x", time.Minute)
		e.StepClock(time.Minute)
		assert.Empty(t, e.Keys(), "values expire by the engine's clock")
	})
}

func TestQuietEngineLosesMessages(t *testing.T) {
	bubble(t, func(t *testing.T, e *memoryengine.Engine) {
		ctx, cancel := context.WithCancel(t.Context())
		var received []string
		ended := make(chan error)
		go func() { ended <- e.Subscribe(ctx, "c", func(message string) { received = append(received, message) }) }()
		synctest.Wait()
		put(t, e, "k", "1 x", time.Hour, "c")
		e.SetQuiet(true)
		put(t, e, "k", "2 x", time.Hour, "c")
		e.SetQuiet(false)
		put(t, e, "k", "3 x", time.Hour, "c")
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		assert.Equal(t, []string{"1 x", "3 x"}, received)
	})
}

func TestValueWithoutALifeIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, e *memoryengine.Engine) {
		_, err := e.Exchange(t.Context(), &shared.Call{Steps: []shared.Step{{Key: "k", Value: "1 x"}}})
		require.ErrorContains(t, err, "no life")
	})
}

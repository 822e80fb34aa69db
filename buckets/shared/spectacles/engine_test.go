package spectacles_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
)

// engine runs scripts on a real engine.
type engine struct{ rueidis.Client }

func (e engine) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	command := e.B().Arbitrary("EVAL", script.Source, strconv.Itoa(len(keys))).Keys(keys...).Args(arguments...).Build()
	return e.Do(ctx, command).AsIntSlice()
}

// The scripts must work on a real engine as they do in memory.
func TestScriptsWorkOnARealEngine(t *testing.T) {
	t.Parallel()
	server := redistest.NewEngine(t)
	option, err := rueidis.ParseURL(server.URL())
	require.NoError(t, err)
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer client.Close()
	e := engine{client}
	number := func(words ...string) int64 {
		n, err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).AsInt64()
		require.NoError(t, err)
		return n
	}
	w := &world{t: t, context: t.Context()}
	p := w.processOn(e)
	defer p.session.Close()

	first := p.mustAcquire()
	assert.Equal(t, int64(-1), number("PTTL", route+":remaining"), "the end of the window is not known")
	p.report(first, headers(4, time.Minute, stamp(time.Minute)))
	second := p.mustAcquire()
	assert.Equal(t, int64(3), number("GET", route+":remaining"))
	assert.InDelta(t, 60_000, number("PTTL", route+":remaining"), 20_000)
	assert.Equal(t, int64(1), number("ZCARD", route+":f"))

	// A client that follows the specification takes the next permit.
	keys := []string{route + ":remaining", route + ":limit", "global"}
	reply, err := e.Run(t.Context(), w.seed(false).claim, keys, "1000")
	require.NoError(t, err)
	assert.Equal(t, []int64{0}, reply)
	assert.Equal(t, int64(2), number("GET", route+":remaining"))

	p.report(second, hold(ratelimits.ClassUser, time.Hour))
	p.join()
	eventually := func(condition func() bool) {
		t.Helper()
		require.Eventually(t, condition, 20*time.Second, 5*time.Millisecond)
	}
	eventually(func() bool { return number("ZCARD", route+":f") == 0 })
	assert.Equal(t, int64(0), number("GET", route+":remaining"))
	assert.InDelta(t, 3_600_000, number("PTTL", route+":remaining"), 60_000)

	require.NoError(t, client.Do(t.Context(), client.B().Del().Key(route+":remaining").Build()).Error())
	number("HSET", route+":remaining", "a", "b")
	other := w.processOn(e)
	defer other.session.Close()
	other.join()
	eventually(func() bool { return other.bucket.Err() != nil })
	assert.ErrorAs(t, other.bucket.Err(), new(*shared.KeyError))
}

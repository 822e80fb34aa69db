package spectacles_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/spectacles"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
)

// engine runs scripts on a real Redis server.
type engine struct{ rueidis.Client }

func (e engine) Run(ctx context.Context, script *shared.Script, keys []string, arguments ...string) ([]int64, error) {
	command := e.B().Arbitrary("EVAL", script.Source, strconv.Itoa(len(keys))).Keys(keys...).Args(arguments...).Build()
	return e.Do(ctx, command).AsIntSlice()
}

// The scripts must do on a real engine what they do in memory. The test waits only for replies.
func TestARealEngineUnderstandsTheScripts(t *testing.T) {
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

	origin := time.Now()
	session := spectacles.New(e).Join(clockwork.NewRealClock(), origin)
	defer session.Close()
	now := func() time.Duration { return time.Since(origin) }
	changed := make(chan struct{}, 100)
	bucket := session.Bucket(key, &ratelimits.Window{}, func() { changed <- struct{}{} })
	demand := func(b shared.Bucket) { b.Demand(now(), 1, slices.Values([]time.Duration{now()})) }
	take := func() shared.Permit {
		permit, ok := bucket.Take(now())
		require.True(t, ok)
		bucket.Demand(now(), 0, slices.Values[[]time.Duration](nil))
		return permit
	}
	until := func(condition func() bool) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for !condition() {
			select {
			case <-changed:
			case <-limit:
				require.Fail(t, "nothing happens")
			}
		}
	}
	granted := func() bool { _, ok := bucket.Next(now()); return ok }

	demand(bucket)
	until(granted)
	assert.Equal(t, int64(-1), number("PTTL", route+":remaining"), "nobody knows when it ends")
	first := take()
	bucket.Report(now(), first, headers(4, time.Minute, time.Now().Add(time.Minute).UnixMilli()))
	demand(bucket)
	until(granted)
	second := take()
	assert.Equal(t, int64(3), number("GET", route+":remaining"))
	assert.InDelta(t, 60_000, number("PTTL", route+":remaining"), 20_000)
	assert.Equal(t, int64(1), number("ZCARD", route+":f"))

	// A client of Spectacles takes the next one.
	reply, err := e.Run(t.Context(), (&world{t: t}).seed(false).claim, []string{route + ":remaining", route + ":limit", "global"}, "1000")
	require.NoError(t, err)
	assert.Equal(t, []int64{0}, reply)
	assert.Equal(t, int64(2), number("GET", route+":remaining"))

	bucket.Report(now(), second, ratelimits.Response{Status: 429, Class: ratelimits.ClassUser, RetryAfter: time.Hour, HasRetryAfter: true})
	demand(bucket)
	until(func() bool { return number("ZCARD", route+":f") == 0 })
	assert.Equal(t, int64(0), number("GET", route+":remaining"))
	assert.InDelta(t, 3_600_000, number("PTTL", route+":remaining"), 60_000)

	require.NoError(t, client.Do(t.Context(), client.B().Del().Key(route+":remaining").Build()).Error())
	number("HSET", route+":remaining", "a", "b")
	other := session.Bucket(key, &ratelimits.Window{}, func() { changed <- struct{}{} })
	demand(other)
	until(func() bool { return other.Err() != nil })
	assert.ErrorAs(t, other.Err(), new(*shared.KeyError))
}

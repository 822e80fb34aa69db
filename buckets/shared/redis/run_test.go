package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"crypto/tls"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/redistest"
)

// count is a script that shows how often it ran.
var count = &shared.Script{Name: "count", Source: "return {redis.call('INCR', KEYS[1])}"}

// listen subscribes until the test ends.
func listen(t testing.TB, store *redis.Store, channel string, received func(string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := store.Runner().Subscribe(ctx, channel, received)
		assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrClosed), "%v", err)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func TestScriptRunsAfterTheEngineHasForgottenIt(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	ask := administrator(t, e.URL())
	for want := range int64(4) {
		if want == 2 {
			require.NoError(t, ask("SCRIPT", "FLUSH").Error())
		}
		got, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
		require.NoError(t, err)
		assert.Equal(t, []int64{want + 1}, got)
	}
	calls, err := ask("INFO", "commandstats").ToString()
	require.NoError(t, err)
	assert.Contains(t, calls, "cmdstat_evalsha:calls=5,", "four calls, and one of Open")
	assert.Contains(t, calls, "cmdstat_eval:calls=3,", "two calls with an unknown script, and one of Open")
}

func TestScriptErrorsAreReturned(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	for name, c := range map[string]struct{ source, says string }{
		"own":         {"return redis.error_reply('RLKEY 1 is a list where a hash belongs;')", "RLKEY 1 is a list where a hash belongs;"},
		"not numbers": {"return {'a'}", "not a list of integers"},
		"not a list":  {"return 'a'", "not a list of integers"},
		"not Lua":     {"return (", "compiling"},
	} {
		_, err := store.Runner().Run(within(t, 5*time.Second), &shared.Script{Name: name, Source: c.source}, []string{key})
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, "script "+name)
	}
	wrong := &shared.Script{Name: "wrong", Source: "redis.call('SET', KEYS[1], 'x') return {redis.call('HLEN', KEYS[1])}"}
	_, err := store.Runner().Run(within(t, 5*time.Second), wrong, []string{key})
	assert.ErrorIs(t, err, redis.ErrForeignKey)
}

func TestCallsEndWithTheirContextWhileTheEngineIsPaused(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	_, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)

	require.NoError(t, e.Pause())
	const calls = 3000 // more than the client's buffers hold
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var running sync.WaitGroup
	start := time.Now()
	for range calls {
		running.Go(func() {
			_, err := store.Runner().Run(ctx, count, []string{key})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	running.Wait()
	assert.Less(t, time.Since(start), 2*time.Second)

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = store.Runner().Run(ctx, count, []string{key})
	assert.ErrorIs(t, err, context.Canceled)

	require.NoError(t, e.Resume())
	require.Eventually(t, func() bool {
		_, err := store.Runner().Run(within(t, 500*time.Millisecond), count, []string{key})
		return err == nil
	}, 5*time.Second, 10*time.Millisecond)
}

func TestScriptWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	p := newProxy(t, e, nil)
	store := open(t, "redis://"+p.address())
	got, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)
	require.Equal(t, []int64{1}, got)
	for want := int64(2); want < 12; want += 2 {
		var lost atomic.Bool
		p.onReply(func(reply []byte, _ net.Conn) bool {
			return !strings.HasPrefix(string(reply), "*1\r\n:") || lost.Swap(true)
		})
		_, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
		require.Error(t, err)
		require.True(t, lost.Load())
		p.onReply(nil)
		got, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
		require.NoError(t, err)
		assert.Equal(t, []int64{want + 1}, got, "the script whose reply was lost ran once")
	}
}

func TestClientReconnectsAfterARestart(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	var dialed atomic.Int64
	store := open(t, e.URL(), redis.WithClientOption(func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, address string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			dialed.Add(1)
			return d.DialContext(ctx, "tcp", address)
		}
	}))
	heard := make(chan string, 100)
	listen(t, store, "rl2:{test-bot}:o:x", func(m string) { heard <- m })
	hears := func(message string) {
		t.Helper()
		hears(t, store, heard, message)
	}
	hears("one")

	e.Kill()
	before := dialed.Load()
	_, err := store.Runner().Run(within(t, 500*time.Millisecond), count, []string{key})
	assert.Error(t, err)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "the call must fail at once")
	assert.Never(t, func() bool { return dialed.Load()-before > 15 }, time.Second, 10*time.Millisecond, "connections dialed in a second")

	require.NoError(t, e.Restart(t.Context()))
	hears("two")
	require.NoError(t, e.Restart(t.Context()))
	hears("three")
	require.NoError(t, e.Pause())
	_, err = store.Runner().Run(within(t, 100*time.Millisecond), count, []string{key})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, e.Resume())
	hears("four")
}

func TestSubscriptionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	subscribe := func() (cancel func(), ended chan error) {
		ctx, stop := context.WithCancel(context.Background())
		ended = make(chan error, 1)
		go func() { ended <- store.Runner().Subscribe(ctx, "rl2:{test-bot}:o:x", func(string) {}) }()
		return stop, ended
	}
	promptly := func(ended chan error, want error) {
		t.Helper()
		select {
		case err := <-ended:
			assert.ErrorIs(t, err, want)
		case <-time.After(500 * time.Millisecond):
			t.Error("Subscribe has not returned")
		}
	}
	ask := administrator(t, e.URL())
	listeners := func(want int64) {
		t.Helper()
		assert.Eventually(t, func() bool {
			n, err := ask("PUBSUB", "NUMSUB", "rl2:{test-bot}:o:x").ToArray()
			if err != nil || len(n) != 2 {
				return false
			}
			got, err := n[1].AsInt64()
			return err == nil && got == want
		}, 5*time.Second, 5*time.Millisecond)
	}

	cancel, ended := subscribe()
	listeners(1)
	cancel()
	promptly(ended, context.Canceled)
	listeners(0)

	cancel, ended = subscribe()
	listeners(1)
	require.NoError(t, e.Pause())
	cancel()
	promptly(ended, context.Canceled)
	cancel, ended = subscribe() // gets no reply
	time.AfterFunc(50*time.Millisecond, cancel)
	promptly(ended, context.Canceled)
	cancel()
	_, ended = subscribe()
	start := time.Now()
	store.Close()
	assert.Less(t, time.Since(start), 700*time.Millisecond, "Close must not wait for a reply")
	promptly(ended, redis.ErrClosed)
	require.NoError(t, e.Resume())
	listeners(0)
}

func TestSlowReceiverDelaysNoCall(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	release := make(chan struct{})
	var heard atomic.Int64
	listen(t, store, "rl2:{test-bot}:o:x", func(string) {
		<-release
		heard.Add(1)
	})
	defer func() {
		close(release)
		assert.Eventually(t, func() bool { return heard.Load() >= 100 }, 5*time.Second, 5*time.Millisecond)
	}()
	for sent := 0; sent < 100; {
		got, err := store.Runner().Run(within(t, time.Second), publish, nil, "rl2:{test-bot}:o:x", "")
		require.NoError(t, err)
		sent += int(got[0])
	}
}

func TestNothingRunsAfterClose(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store, err := redis.Open(t.Context(), e.URL(), application)
	require.NoError(t, err)
	require.NoError(t, e.Pause())
	var running sync.WaitGroup
	for range 10 {
		running.Go(func() {
			_, err := store.Runner().Run(context.Background(), count, []string{key})
			assert.Error(t, err)
		})
	}
	time.AfterFunc(20*time.Millisecond, store.Close)
	running.Wait()
	store.Close()
	_, err = store.Runner().Run(t.Context(), count, []string{key})
	assert.ErrorIs(t, err, redis.ErrClosed)
	assert.ErrorIs(t, store.Runner().Subscribe(t.Context(), "c", nil), redis.ErrClosed)
	require.NoError(t, e.Resume())
	ask := administrator(t, e.URL())
	assert.Eventually(t, func() bool {
		clients, err := ask("CLIENT", "LIST").ToString()
		return err == nil && strings.Count(clients, "\n") == 1
	}, 5*time.Second, 5*time.Millisecond, "all connections must be closed")
}

package redis_test

import (
	"context"
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
	"github.com/ratelight/ratelight/internal/enginetest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// count is a script that returns how often it has run.
var count = &shared.Script{Name: "count", Source: "return {redis.call('INCR', KEYS[1])}"}

func TestClientConforms(t *testing.T) {
	t.Parallel()
	enginetest.RunRunner(t, func(t *testing.T, address string) enginetest.Runner {
		return open(t, "redis://"+address).Runner()
	})
}

func TestScriptIsSentOnce(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	for range 4 {
		_, err := store.Runner().Run(within(t, 5*time.Second), count, []string{key})
		require.NoError(t, err)
	}
	calls, err := administrator(t, e.URL())("INFO", "commandstats").ToString()
	require.NoError(t, err)
	assert.Contains(t, calls, "cmdstat_evalsha:calls=5,", "four calls, and one of Open")
	assert.Contains(t, calls, "cmdstat_eval:calls=2,", "one call with an unknown script, and one of Open")
}

func TestErrorsOfScripts(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	store := open(t, e.URL())
	_, err := store.Runner().Run(within(t, 5*time.Second), &shared.Script{Name: "a", Source: "return 'a'"}, []string{key})
	assert.ErrorContains(t, err, "not a list of integers")
	wrong := &shared.Script{Name: "wrong", Source: "redis.call('SET', KEYS[1], 'x') return {redis.call('HLEN', KEYS[1])}"}
	_, err = store.Runner().Run(within(t, 5*time.Second), wrong, []string{key})
	assert.ErrorIs(t, err, redis.ErrForeignKey)
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
	hears := enginetest.Listen(t, store.Runner())
	hears("one")

	e.Kill()
	before := dialed.Load()
	_, err := store.Runner().Run(within(t, 500*time.Millisecond), count, []string{key})
	assert.Error(t, err)
	assert.NotErrorIs(t, err, context.DeadlineExceeded, "the call must fail at once")
	assert.Never(t, func() bool { return dialed.Load()-before > 15 }, time.Second, 10*time.Millisecond,
		"connections dialed in a second")

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
	cancel, ended = subscribe() // this subscription gets no reply
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
	go func() {
		_ = store.Runner().Subscribe(t.Context(), "rl2:{test-bot}:o:x", func(string) {
			<-release
			heard.Add(1)
		})
	}()
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

package goredis_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/goredis"
	"github.com/ratelight/ratelight/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "rl2:{test-bot}:test"

var (
	count   = &shared.Script{Name: "count", Source: "return {redis.call('INCR', KEYS[1])}"}
	publish = &shared.Script{Name: "publish", Source: "return {redis.call('PUBLISH', ARGV[1], ARGV[2])}"}
)

// on returns a runner on an engine.
func on(t testing.TB, e *redistest.Engine) *goredis.Runner {
	client := redis.NewClient(goredis.Settings(&redis.Options{Addr: e.Address()}))
	t.Cleanup(func() { client.Close() })
	return goredis.New(client)
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// listen subscribes until the test ends.
func listen(t testing.TB, r *goredis.Runner) <-chan string {
	heard := make(chan string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		assert.ErrorIs(t, r.Subscribe(ctx, "o", func(m string) { heard <- m }), context.Canceled)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return heard
}

// hears waits until messages come through.
func hears(t testing.TB, r *goredis.Runner, heard <-chan string, message string) {
	t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		_, _ = r.Run(within(t, 500*time.Millisecond), publish, []string{key}, "o", message)
		select {
		case m := <-heard:
			if m == message {
				return
			}
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			require.Fail(t, "no message comes through")
		}
	}
}

func TestScriptsRunAndErrorsComeBack(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	r := on(t, e)
	for want := range int64(3) {
		if want == 2 {
			_, err := e.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		got, err := r.Run(within(t, 5*time.Second), count, []string{key})
		require.NoError(t, err)
		assert.Equal(t, []int64{want + 1}, got)
	}
	_, err := r.Run(within(t, 5*time.Second), &shared.Script{Name: "own", Source: "return redis.error_reply('RLKEY 1 is odd;')"}, []string{key})
	assert.ErrorContains(t, err, "RLKEY 1 is odd;")
	assert.ErrorContains(t, err, "script own")
	_, err = r.Run(within(t, 5*time.Second), &shared.Script{Name: "text", Source: "return 'a'"}, []string{key})
	assert.Error(t, err)
}

func TestCallsEndWithTheirContextWhileTheEngineStandsStill(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	r := on(t, e)
	_, err := r.Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)
	require.NoError(t, e.Pause())
	start := time.Now()
	_, err = r.Run(within(t, 100*time.Millisecond), count, []string{key})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = r.Run(ctx, count, []string{key})
	assert.ErrorIs(t, err, context.Canceled)
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	assert.ErrorIs(t, r.Subscribe(ctx, "o", nil), context.Canceled)
	assert.Less(t, time.Since(start), time.Second)
	require.NoError(t, e.Resume())
	require.Eventually(t, func() bool {
		_, err := r.Run(within(t, 500*time.Millisecond), count, []string{key})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
}

func TestSubscriptionComesBackAfterARestart(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	r := on(t, e)
	heard := listen(t, r)
	hears(t, r, heard, "one")
	require.NoError(t, e.Restart(t.Context()))
	hears(t, r, heard, "two")
}

// losing closes the connection instead of passing on the next reply to a script, once after lose was set.
type losing struct {
	net.Conn
	lose *atomic.Bool
}

func (l losing) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if strings.HasPrefix(string(p[:n]), "*1\r\n:") && l.lose.Swap(false) {
		l.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func (l *losing) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, address)
	return losing{connection, l.lose}, err
}

func loses(t *testing.T, r *goredis.Runner, lose *atomic.Bool) {
	t.Helper()
	_, err := r.Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)
	lose.Store(true)
	_, err = r.Run(within(t, 5*time.Second), count, []string{key})
	require.Error(t, err)
	require.False(t, lose.Load())
	got, err := r.Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)
	assert.Equal(t, []int64{3}, got, "the second ran once")
}

func TestScriptWhoseReplyIsLostIsNotRepeated(t *testing.T) {
	t.Parallel()
	e := redistest.NewEngine(t)
	dialer := losing{lose: new(atomic.Bool)}
	client := redis.NewClient(goredis.Settings(&redis.Options{Addr: e.Address(), Dialer: dialer.dial}))
	defer client.Close()
	loses(t, goredis.New(client), dialer.lose)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.NewCluster(t, 3, 1)
	dialer := losing{lose: new(atomic.Bool)}
	client := redis.NewClusterClient(goredis.ClusterSettings(&redis.ClusterOptions{Addrs: []string{nodes[0].Address(), nodes[1].Address()}, Dialer: dialer.dial}))
	t.Cleanup(func() { client.Close() })
	r := goredis.New(client)
	loses(t, r, dialer.lose)
	for i := range 20 {
		got, err := r.Run(within(t, 5*time.Second), count, []string{"rl2:{" + strconv.Itoa(i) + "}:test"})
		require.NoError(t, err)
		assert.Equal(t, []int64{1}, got)
	}
	heard := listen(t, r)
	hears(t, r, heard, "one")

	slot, err := nodes[0].Do("CLUSTER", "KEYSLOT", key)
	require.NoError(t, err)
	nodes[int(slot.(int64))*3/16384].Kill()
	start := time.Now()
	require.Eventually(t, func() bool {
		_, err := r.Run(within(t, 500*time.Millisecond), count, []string{key})
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
	t.Logf("back after %v", time.Since(start))
	hears(t, r, heard, "two")
}

func TestSettingsKeepWhatIsSet(t *testing.T) {
	t.Parallel()
	o := goredis.Settings(&redis.Options{DialTimeout: time.Minute})
	assert.Equal(t, time.Minute, o.DialTimeout)
	assert.Equal(t, -1, o.MaxRetries)
	assert.Equal(t, 1, o.DialerRetries)
	assert.True(t, o.ContextTimeoutEnabled)
	assert.Equal(t, 2*time.Second, goredis.ClusterSettings(&redis.ClusterOptions{}).ClusterStateReloadInterval)
	assert.Equal(t, -1, goredis.FailoverSettings(&redis.FailoverOptions{}).MaxRetries)
}

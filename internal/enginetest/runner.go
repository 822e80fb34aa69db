package enginetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/redistest"
)

// Runner is a runner under test.
type Runner interface {
	shared.Runner
	shared.Subscriber
}

const (
	key     = "rl2:{test-bot}:test"
	channel = "rl2:{test-bot}:o:x"
)

var (
	count   = &shared.Script{Name: "count", Source: "return {redis.call('INCR', KEYS[1])}"}
	publish = &shared.Script{Name: "publish", Source: "return {redis.call('PUBLISH', ARGV[1], ARGV[2])}"}
)

// RunRunner tests a Runner on real servers. connect must return a Runner that is connected to the server at an address,
// and that is closed when the test ends.
func RunRunner(t *testing.T, connect func(t *testing.T, address string) Runner) {
	for name, test := range map[string]func(*testing.T, func(*testing.T, string) Runner){
		"scripts": scripts, "lost reply": lostReply, "paused engine": pausedEngine, "restart": restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, connect)
		})
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// counts runs the script count, which must return the number want.
func counts(t *testing.T, r Runner, want int64) {
	t.Helper()
	got, err := r.Run(within(t, 5*time.Second), count, []string{key})
	require.NoError(t, err)
	require.Equal(t, []int64{want}, got)
}

// Runs waits until scripts run without an error again.
func Runs(t *testing.T, r Runner) {
	t.Helper()
	start := time.Now()
	require.Eventually(t, func() bool {
		_, err := r.Run(within(t, 500*time.Millisecond), count, []string{key})
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	t.Logf("back after %v", time.Since(start))
}

// Listen subscribes to a channel until the test ends. The returned function hears sends a message, repeatedly, until
// the subscription has received it.
func Listen(t *testing.T, r Runner) (hears func(message string)) {
	t.Helper()
	received := make(chan string, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := r.Subscribe(ctx, channel, func(m string) { received <- m })
		assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, shared.ErrClosed), "%v", err)
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return func(message string) {
		t.Helper()
		for deadline := time.After(10 * time.Second); ; {
			_, _ = r.Run(within(t, 500*time.Millisecond), publish, []string{key}, channel, message)
			select {
			case m := <-received:
				if m == message {
					return
				}
			case <-time.After(20 * time.Millisecond):
			case <-deadline:
				require.Fail(t, "no message was received")
			}
		}
	}
}

// InAllSlots tests that scripts run on keys in different slots of a cluster.
func InAllSlots(t *testing.T, r Runner) {
	t.Helper()
	for i := range 20 {
		got, err := r.Run(within(t, 5*time.Second), count, []string{"rl2:{" + strconv.Itoa(i) + "}:test"})
		require.NoError(t, err)
		assert.Equal(t, []int64{1}, got)
	}
}

// Owner returns which of three primaries has the slot of the test's key, as an index.
func Owner(t *testing.T, nodes []*redistest.Engine) int {
	t.Helper()
	slot, err := nodes[0].Do("CLUSTER", "KEYSLOT", key)
	require.NoError(t, err)
	return int(slot.(int64)) * 3 / 16384
}

func scripts(t *testing.T, connect func(*testing.T, string) Runner) {
	e := redistest.NewEngine(t)
	r := connect(t, e.Address())
	for want := range int64(4) {
		if want == 2 { // the engine forgets the script
			_, err := e.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		counts(t, r, want+1)
	}
	for name, c := range map[string]struct{ source, says string }{
		"own":        {"return redis.error_reply('RLKEY 1 is odd;')", "RLKEY 1 is odd;"},
		"no numbers": {"return {'a'}", ""},
		"no list":    {"return 'a'", ""},
		"no Lua":     {"return (", "compiling"},
	} {
		_, err := r.Run(within(t, 5*time.Second), &shared.Script{Name: name, Source: c.source}, []string{key})
		assert.ErrorContains(t, err, c.says)
		assert.ErrorContains(t, err, "script "+name)
	}
}

// LosesReply tests that a runner does not run a script again if the reply is lost. lose makes the connection lose the
// next reply.
func LosesReply(t *testing.T, r Runner, lose func()) {
	t.Helper()
	counts(t, r, 1)
	for want := int64(3); want < 13; want += 2 {
		lose()
		_, err := r.Run(within(t, 5*time.Second), count, []string{key})
		require.Error(t, err)
		counts(t, r, want)
	}
}

func lostReply(t *testing.T, connect func(*testing.T, string) Runner) {
	p := redistest.NewProxy(t, redistest.NewEngine(t), nil)
	var lose atomic.Bool
	p.OnReply(func(part []byte) bool { return !strings.HasPrefix(string(part), "*1\r\n:") || !lose.Swap(false) })
	LosesReply(t, connect(t, p.Address()), func() { lose.Store(true) })
}

// Calls must end with their contexts even if the engine does not reply.
func pausedEngine(t *testing.T, connect func(*testing.T, string) Runner) {
	e := redistest.NewEngine(t)
	r := connect(t, e.Address())
	counts(t, r, 1)
	require.NoError(t, e.Pause())
	const calls = 3000 // more than fit into the buffers of a client
	ctx := within(t, 500*time.Millisecond)
	var running sync.WaitGroup
	start := time.Now()
	for range calls {
		running.Go(func() {
			_, err := r.Run(ctx, count, []string{key})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	running.Wait()
	assert.Less(t, time.Since(start), 2*time.Second)
	for _, call := range []func(context.Context) error{
		func(ctx context.Context) error { return r.Subscribe(ctx, channel, nil) },
		func(ctx context.Context) error {
			_, err := r.Run(ctx, count, []string{key})
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		assert.ErrorIs(t, call(ctx), context.Canceled)
	}
	require.NoError(t, e.Resume())
	Runs(t, r)
}

func restart(t *testing.T, connect func(*testing.T, string) Runner) {
	e := redistest.NewEngine(t)
	r := connect(t, e.Address())
	hears := Listen(t, r)
	hears("one")
	require.NoError(t, e.Restart(t.Context()))
	hears("two")
}

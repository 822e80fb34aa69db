package shared_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
)

// journal stores the lines of a log.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns the lines that were logged since the previous call.
func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.TrimSpace(j.text.String())
	j.text.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestStartAndEndOfAnOutageAreLogged(t *testing.T) {
	for _, policy := range []shared.Outage{shared.OutageWait, shared.OutageFail, shared.OutageShare, shared.OutageFull} {
		t.Run(policy.String(), func(t *testing.T) {
			var log journal
			withBoth(t, func(f *managers) {
				require.Empty(t, log.lines())
				for range 2 {
					f.Engine.SetDown(true)
					for range 20 {
						f.acquire(within(0), 0, messages(1))
						f.acquire(within(0), 1, messages(1))
						pass(500 * ms)
					}
					lines := log.lines()
					require.Len(t, lines, 2, "one line of each manager")
					for _, line := range lines {
						assert.Regexp(t, "level=WARN .*unavailable", line)
						assert.Contains(t, line, "policy="+policy.String())
						assert.Contains(t, line, "cause=")
						assert.Contains(t, line, "application=default")
					}
					f.Engine.SetDown(false)
					pass(2 * time.Second)
					lines = log.lines()
					require.Len(t, lines, 2)
					for _, line := range lines {
						assert.Regexp(t, `level=WARN .*available again.* after=1[01]\.?\d*s`, line)
					}
				}
				f.post(0, 1)
				assert.Empty(t, log.lines())
			}, shared.WithLogger(log.logger()), shared.WithOutage(policy))
		})
	}
}

func TestForeignValueIsLoggedOnceAMinute(t *testing.T) {
	inWorld(t, func(w *world) {
		var log journal
		w.server.Set(bucketKey, "mine")
		a := w.process(shared.WithLogger(log.logger())).use(someKey)
		for range 58 {
			a.join(1)
			pass(time.Second)
		}
		lines := log.lines()
		require.Len(t, lines, 1)
		assert.Regexp(t, `level=WARN .*key="?rl2:{default}:b:0123456789abcdef/hash/1"? problem=`, lines[0])
		a.join(1)
		pass(4 * time.Second)
		assert.Len(t, log.lines(), 1)
	})
}

func TestWithoutALoggerNothingIsLogged(t *testing.T) {
	var log journal
	before := slog.Default()
	slog.SetDefault(log.logger())
	defer slog.SetDefault(before)
	outage := func(options ...shared.Option) {
		inWorld(t, func(w *world) {
			a := w.process(options...).use(someKey)
			w.server.SetDown(true)
			a.join(1)
			pass(3 * time.Second)
		})
	}
	outage(shared.WithLogger(nil))
	require.Empty(t, log.lines())
	outage()
	require.Len(t, log.lines(), 1, "the default logger is used")
}

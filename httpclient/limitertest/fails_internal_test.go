package limitertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// recorder records the failures of a case without failing the test.
type recorder struct {
	mu       sync.Mutex
	failures []string
	skipped  string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, arguments...))
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.Errorf(format, arguments...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, arguments ...any) {
	r.skipped = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// failuresOf runs a case and returns its failures.
func failuresOf(t *testing.T, c testCase, newLimiter func(t *testing.T) httpclient.Limiter,
	options ...Option) []string {
	t.Helper()
	return record(t, c, newLimiter, options...).failures
}

func record(t *testing.T, c testCase, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) *recorder {
	t.Helper()
	s := settingsOf(options)
	var r recorder
	s.inTime(t, func(t *testing.T) {
		done := make(chan struct{})
		go func() { // Fatalf ends this goroutine, not the test's
			defer close(done)
			c.perform(t, &r, newLimiter, s)
		}()
		<-done
	})
	return &r
}

// named returns the cases whose names have this prefix.
func named(t *testing.T, prefix string) []testCase {
	t.Helper()
	var found []testCase
	for _, c := range cases() {
		if strings.HasPrefix(c.name, prefix) {
			found = append(found, c)
		}
	}
	require.NotEmpty(t, found, prefix)
	return found
}

// Each limiter with a mistake must fail the cases about that mistake, and the failure must say why it matters.
func TestBrokenLimitersFail(t *testing.T) {
	t.Parallel()
	for _, b := range brokenLimiters {
		for _, prefix := range b.fails {
			t.Run(b.name+" fails "+prefix, func(t *testing.T) {
				t.Parallel()
				for _, c := range named(t, prefix) {
					failures := failuresOf(t, c, b.make, b.options...)
					if assert.NotEmpty(t, failures, c.name) {
						assert.Contains(t, failures[0], "expected", c.name)
						assert.Contains(t, failures[0], "why it matters: "+c.why)
					}
				}
			})
		}
	}
}

// The wrapper that the broken limiters use must not break a limiter by itself.
func TestUnbrokenLimiterPasses(t *testing.T) {
	t.Parallel()
	Strict(t, func(t *testing.T) httpclient.Limiter { return &altered{inner: manager(t)} })
}

// A case that no limiter fails tests nothing.
func TestEveryCaseIsFailedBySomeBrokenLimiter(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		assert.True(t, slices.ContainsFunc(brokenLimiters, func(b broken) bool {
			return slices.ContainsFunc(b.fails, func(prefix string) bool { return strings.HasPrefix(c.name, prefix) })
		}), "nothing fails %q", c.name)
	}
}

// Each prefix of Core must name a case, and Core must have fewer cases than Strict.
func TestCoreIsAPartOfStrict(t *testing.T) {
	t.Parallel()
	for _, prefix := range core {
		named(t, prefix)
	}
	assert.Less(t, len(coreCases()), len(cases()))
}

// A limiter that causes 429s fails Core. A limiter that sends one request at a time passes Core, but not Strict.
func TestCoreIsAboutSafetyAlone(t *testing.T) {
	t.Parallel()
	failed := func(cases []testCase, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) (n int) {
		for _, c := range cases {
			if len(failuresOf(t, c, newLimiter, options...)) > 0 {
				n++
			}
		}
		return n
	}
	slow := around(func(l httpclient.Limiter) serial { return serial{l, make(chan struct{}, 1)} })
	assert.Zero(t, failed(coreCases(), slow, WithThroughput(0), WithGlobalLimit(0)))
	assert.NotZero(t, failed(named(t, "hold/interactions"), slow))
	assert.NotZero(t, failed(coreCases(), newNaive))
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range cases() {
		assert.False(t, seen[c.name], c.name)
		assert.NotEmpty(t, c.why, c.name)
		seen[c.name] = true
	}
}

func TestWhatIsNotPromisedIsSkipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		option Option
		word   string
	}{
		{"order/first come, first served", Without(Order), "first come, first served"},
		{"deadline/before the predicted wait", Without(Discovery, Prediction), "at once"},
		{"global limit/interactions do not count", WithGlobalLimit(0), "no global limit"},
		{"max wait/of the limiter", WithMaxWait(0), "no bound"},
		{"memory/of a hold", WithRealTime(), "too long in real time"},
		{"close/afterwards", Without(), "not an io.Closer"},
	} {
		r := record(t, named(t, c.name)[0], unlimited, c.option)
		assert.Contains(t, r.skipped, c.word)
		assert.Empty(t, r.failures)
	}
}

func TestSuiteRunsInRealTime(t *testing.T) {
	t.Parallel()
	for _, c := range named(t, "lease/Return") {
		assert.Empty(t, failuresOf(t, c, managed(), WithRealTime()))
		assert.NotEmpty(t, failuresOf(t, c, unlimited, WithRealTime()))
	}
}

// One part of a limiter may learn from a response later than the pause of the suite.
func TestSuiteWaitsForNewsInRealTime(t *testing.T) {
	t.Parallel()
	tardy := alter(altered{end: func(end func()) { time.AfterFunc(3*realPause, end) }})
	c := named(t, "close/ends all waits")[0]
	assert.Empty(t, failuresOf(t, c, tardy, WithRealTime(), WithTolerance(10*time.Second)))
}

// The options set how late a grant and how low the throughput may be.
func TestTolerances(t *testing.T) {
	t.Parallel()
	late := alter(altered{context: func(ctx context.Context) context.Context {
		time.Sleep(20 * time.Millisecond)
		return ctx
	}})
	c := named(t, "window/fixed/round trip 2ms")[0]
	slow := managed(buckets.WithOrdered())
	assert.Empty(t, failuresOf(t, c, slow))
	assert.NotEmpty(t, failuresOf(t, c, slow, WithThroughput(1.01)))
	c = named(t, "refusal/how long/bucket")[0]
	assert.NotEmpty(t, failuresOf(t, c, late))
	assert.NotEmpty(t, failuresOf(t, c, managed(), WithTolerance(time.Nanosecond)))
	assert.Empty(t, failuresOf(t, c, managed(), WithTolerance(time.Second)))
}

package limitertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// record runs a case without failing the test.
func record(t *testing.T, c testCase, newLimiter func(t *testing.T) httpclient.Limiter, options ...Option) *trial {
	t.Helper()
	return c.perform(t, newLimiter, settingsOf(options))
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
func TestMutantsFail(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		for _, prefix := range strings.Split(m.fails, "; ") {
			t.Run(m.name+" fails "+prefix, func(t *testing.T) {
				t.Parallel()
				for _, c := range named(t, prefix) {
					failures := record(t, c, m.limiter, m.suite...).failures
					if assert.NotEmpty(t, failures, c.name) {
						assert.Contains(t, failures[0], "expected", c.name)
						assert.Contains(t, failures[0], "why it matters: "+c.why)
					}
				}
			})
		}
	}
}

// A failure must name the request, and show the steps so far with their comments.
func TestFailureShowsTheSteps(t *testing.T) {
	t.Parallel()
	failures := record(t, named(t, "lease/ended more than once")[0], unlimited).failures
	require.Len(t, failures, 1)
	assert.Regexp(t, `^c: message1 was expected to wait, but it was granted after 0s
steps so far:
	message1 gets 200 1/2 2s; a: message1 goes
	a returns; .*
	b: message1 goes; cd: message1 wait # one place was given back
why it matters: callers that defer Release`, failures[0])
}

// Managers must pass Strict, whatever their limits. So must a mutant without a mistake; otherwise the wrapper itself
// would have one.
func TestManagersPass(t *testing.T) {
	t.Parallel()
	long := managed(buckets.WithMaxRateLimit(time.Hour), buckets.WithEviction(time.Second, 0))
	for _, c := range []struct {
		name       string
		newLimiter func(t *testing.T) httpclient.Limiter
		suite      []Option
	}{
		{"as it is", managed(), []Option{WithMaxWait(buckets.DefaultMaxRateLimit)}},
		{"mutant without a mistake", mutant{}.limiter, nil},
		{"longer max rate limit, early eviction", long, []Option{WithMaxWait(time.Hour)}},
		{"no global limit", managed(buckets.WithGlobalLimit(0)), []Option{WithGlobalLimit(0)}},
		{"high global limit", managed(buckets.WithGlobalLimit(500)), []Option{WithGlobalLimit(500)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			Strict(t, c.newLimiter, c.suite...)
		})
	}
}

func TestOnlyLeavesOutAllOtherCases(t *testing.T) {
	made := make(chan string, 1000)
	t.Run("suite", func(t *testing.T) {
		Core(t, func(t *testing.T) httpclient.Limiter {
			made <- t.Name()
			return manager(t)
		}, Only("arguments/no route", "close/"))
	})
	close(made)
	n := 0
	for name := range made {
		assert.Regexp(t, "/suite/(arguments/no_route|close/)", name)
		n++
	}
	assert.Positive(t, n)
}

// For each case there must be at least one mutant that fails it, because a case that every limiter passes tests
// nothing.
func TestEveryCaseIsFailedBySomeMutant(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, c := range cases() {
		fails := func(m mutant) bool { return c.named(strings.Split(m.fails, "; ")) }
		assert.True(t, slices.ContainsFunc(mutants, fails), "no mutant fails %q", c.name)
		assert.False(t, seen[c.name], "two cases are named %q", c.name)
		assert.NotEmpty(t, c.why, c.name)
		seen[c.name] = true
	}
}

// Each prefix in core must name a case. A limiter without limits must fail Core, although Core requires no throughput.
func TestCoreIsAboutSafetyAlone(t *testing.T) {
	t.Parallel()
	for _, prefix := range core {
		named(t, prefix)
	}
	assert.Less(t, len(coreCases()), len(cases()))
	failed := slices.ContainsFunc(coreCases(), func(c testCase) bool {
		return len(record(t, c, unlimited, WithThroughput(0)).failures) > 0
	})
	assert.True(t, failed)
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
		{"global limit/interactions do not count", WithGlobalLimit(0), "a global limit"},
		{"max wait/of the limiter", WithMaxWait(0), "a bound"},
		{"memory/of a hold", WithRealTime(), "too long in real time"},
		{"close/afterwards", Without(), "an io.Closer"},
	} {
		r := record(t, named(t, c.name)[0], unlimited, c.option)
		assert.Contains(t, r.skipped, c.word)
		assert.Empty(t, r.failures)
	}
}

func TestSuiteRunsInRealTime(t *testing.T) {
	t.Parallel()
	for _, c := range named(t, "lease/Return") {
		assert.Empty(t, record(t, c, managed(), WithRealTime()).failures)
		assert.NotEmpty(t, record(t, c, unlimited, WithRealTime()).failures)
	}
}

// In real time, the suite must wait for a part of a limiter that learns of a response later than the suite's pause.
func TestSuiteWaitsForNewsInRealTime(t *testing.T) {
	t.Parallel()
	tardy := mutant{end: func(_ *limiter, _ ratelimits.Response, end func()) { time.AfterFunc(3*realPause, end) }}
	c := named(t, "close/ends all waits")[0]
	assert.Empty(t, record(t, c, tardy.limiter, WithRealTime(), WithTolerance(10*time.Second)).failures)
}

// WithTolerance must set how late a grant may be, and WithThroughput how low the throughput may be.
func TestTolerances(t *testing.T) {
	t.Parallel()
	late := mutant{context: func(ctx context.Context) context.Context {
		time.Sleep(20 * time.Millisecond)
		return ctx
	}}.limiter
	slow := managed(buckets.WithOrdered())
	for _, c := range []struct {
		name    string
		limiter func(t *testing.T) httpclient.Limiter
		options []Option
		fails   bool
	}{
		{"window/fixed/round trip 2ms", slow, nil, false},
		{"window/fixed/round trip 2ms", slow, []Option{WithThroughput(1.01)}, true},
		{"refusal/how long/bucket", late, nil, true},
		{"refusal/how long/bucket", managed(), []Option{WithTolerance(time.Nanosecond)}, true},
		{"refusal/how long/bucket", managed(), []Option{WithTolerance(time.Second)}, false},
	} {
		failures := record(t, named(t, c.name)[0], c.limiter, c.options...).failures
		assert.Equal(t, c.fails, len(failures) > 0, "%s: %v", c.name, failures)
	}
}

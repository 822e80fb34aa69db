package limitertest_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the tests cause warnings on purpose
	goleak.VerifyTestMain(m)
}

// managers returns a function that makes running managers.
func managers(options ...buckets.Option) func(t *testing.T) httpclient.Limiter {
	return func(t *testing.T) httpclient.Limiter {
		m := buckets.NewRESTBucketManager(options...)
		require.NoError(t, m.Start())
		t.Cleanup(func() { m.Close() })
		return m
	}
}

func TestSequentialPassesCore(t *testing.T) {
	t.Parallel()
	limitertest.Core(t, func(*testing.T) httpclient.Limiter { return NewSequential() }, limitertest.WithGlobalLimit(0))
}

// Managers with options for limits must pass, apart from the promises that these options exclude.
func TestManagerConforms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		manager []buckets.Option
		suite   []limitertest.Option
	}{
		{"as it is", nil, []limitertest.Option{limitertest.WithMaxWait(buckets.DefaultMaxRateLimit)}},
		{
			"longer max rate limit, eager collection",
			[]buckets.Option{buckets.WithMaxRateLimit(time.Hour), buckets.WithEviction(time.Second, 0)},
			[]limitertest.Option{limitertest.WithMaxWait(time.Hour)},
		},
		{"no global limit", []buckets.Option{buckets.WithGlobalLimit(0)}, []limitertest.Option{limitertest.WithGlobalLimit(0)}},
		{"high global limit", []buckets.Option{buckets.WithGlobalLimit(500)}, []limitertest.Option{limitertest.WithGlobalLimit(500)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limitertest.Strict(t, managers(c.manager...), c.suite...)
		})
	}
}

func TestOnlyLeavesOutAllOtherCases(t *testing.T) {
	made := make(chan string, 1000)
	t.Run("suite", func(t *testing.T) {
		limitertest.Core(t, func(t *testing.T) httpclient.Limiter {
			made <- t.Name()
			return managers(buckets.WithGlobalLimit(0))(t)
		}, limitertest.WithGlobalLimit(0), limitertest.Only("arguments/no route", "close/"))
	})
	close(made)
	n := 0
	for name := range made {
		assert.Regexp(t, "/suite/(arguments/no_route|close/)", name)
		n++
	}
	assert.Positive(t, n)
}

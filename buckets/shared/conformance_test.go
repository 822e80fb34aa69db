package shared_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
	"github.com/ratelight/ratelight/internal/conformance"
)

// quiet discards the warnings that tests cause.
var quiet = buckets.WithLogger(slog.New(slog.DiscardHandler))

// managerOn returns a started manager that shares limits through an engine.
func managerOn(t *testing.T, engine shared.Engine, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	store, err := shared.New(engine, shared.WithLease(10*time.Minute)) // some cases are slow
	require.NoError(t, err)
	m := buckets.NewRESTBucketManager(append(options, buckets.WithShared(store), quiet)...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { m.Close() })
	return m
}

// memory returns a server in memory. It is closed when the test ends.
func memory(t *testing.T) server {
	t.Helper()
	m := newServer()
	t.Cleanup(m.Close)
	return m
}

// A manager that shares limits must behave like a manager that does not share them.
func TestSharingManagerConforms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		manager []buckets.Option
		suite   []limitertest.Option
	}{
		{"default", nil, []limitertest.Option{limitertest.WithMaxWait(buckets.DefaultMaxRateLimit)}},
		{
			"no global limit", []buckets.Option{buckets.WithGlobalLimit(0)},
			[]limitertest.Option{limitertest.WithGlobalLimit(0)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limitertest.Strict(t, func(t *testing.T) httpclient.Limiter {
				return managerOn(t, memory(t), c.manager...)
			}, c.suite...)
		})
	}
}

// Three managers, each of which gets every third request, must together behave like one manager. The test leaves out
// some cases.
func TestSeveralManagersConformTogether(t *testing.T) {
	long(t)
	t.Parallel()
	limitertest.Strict(t, func(t *testing.T) httpclient.Limiter {
		server := memory(t)
		var managers []*buckets.RESTBucketManager
		for range 3 {
			managers = append(managers, managerOn(t, server, buckets.WithGlobalLimit(0)))
		}
		return conformance.NewSeveral(managers...)
	},
		limitertest.WithMaxWait(buckets.DefaultMaxRateLimit),
		// It takes a second until a part of the global limit has moved to another manager.
		limitertest.WithGlobalLimit(0),
		// Requests that wait for the discovery of a route's bucket join the bucket's queue manager by manager.
		limitertest.Without(limitertest.Order),
		// Managers do not share limits on fields or refusals by the edge. Requests are ordered only within each manager.
		limitertest.Without(limitertest.SubLimits, limitertest.Edge, limitertest.OneAtATime),
		// Managers report responses late, so it takes them longer to learn that a bucket refills one request at a time.
		limitertest.Without(limitertest.SlowRefill),
		// Managers learn from each other only with their next calls about buckets, holds, hashes and the queue.
		limitertest.Without(limitertest.OneMind))
}

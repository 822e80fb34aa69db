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

// quiet is an option for managers that log no warnings.
var quiet = buckets.WithLogger(slog.New(slog.DiscardHandler))

// managerOn returns a running manager that shares its limits through an engine.
func managerOn(t *testing.T, engine shared.Engine, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	store, err := shared.New(engine, shared.WithLease(10*time.Minute)) // some cases are slow
	require.NoError(t, err)
	m := buckets.NewRESTBucketManager(append(options, buckets.WithShared(store), quiet)...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { m.Close() })
	return m
}

// memory returns a server in memory that ends with the test.
func memory(t *testing.T) server {
	t.Helper()
	m := newServer()
	t.Cleanup(m.Close)
	return m
}

// A manager that shares behaves like any other.
func TestSharingManagerConforms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		manager []buckets.Option
		suite   []limitertest.Option
	}{
		{"as it is", nil, []limitertest.Option{limitertest.WithMaxWait(buckets.DefaultMaxRateLimit)}},
		{"no global limit", []buckets.Option{buckets.WithGlobalLimit(0)}, []limitertest.Option{limitertest.WithGlobalLimit(0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limitertest.Strict(t, func(t *testing.T) httpclient.Limiter { return managerOn(t, memory(t), c.manager...) }, c.suite...)
		})
	}
}

// Several managers that share limits, each with every third request, must behave like one manager.
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
		// Parts of the global limit move from manager to manager in a second, and not at once.
		limitertest.WithGlobalLimit(0),
		// When the bucket of a route becomes known, waiting requests enter its queue manager by manager.
		limitertest.Without(limitertest.Order),
		// Each manager has its own sub-limits and its own hold of the edge, and orders only its own requests.
		limitertest.Without(limitertest.SubLimits, limitertest.Edge, limitertest.OneAtATime),
		// The shared state distinguishes the two kinds only by answers that come in time.
		limitertest.Without(limitertest.SlowRefill),
		// Buckets and holds reach the other managers a moment later, hashes and places in queues only with their next
		// calls.
		limitertest.Without(limitertest.OneMind))
}

package shared_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// quiet managers do not warn of what tests provoke.
var quiet = buckets.WithLogger(slog.New(slog.DiscardHandler))

// managerOn returns a running manager that shares what is on the server that the runner reaches.
func managerOn(t *testing.T, runner shared.Runner, options ...buckets.Option) *buckets.RESTBucketManager {
	t.Helper()
	store, err := shared.New(runner, shared.WithLease(10*time.Minute)) // some cases are slow
	require.NoError(t, err)
	m := buckets.NewRESTBucketManager(append(options, buckets.WithShared(store), quiet)...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { m.Close() })
	return m
}

// memory returns a server in memory that ends with the test.
func memory(t *testing.T) *redistest.Memory {
	t.Helper()
	m := redistest.NewMemory()
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

// several managers behind which it cannot be seen that they are several.
type several struct {
	managers []*buckets.RESTBucketManager

	mu   sync.Mutex
	next int
	of   map[*buckets.Request]int // which manager: a request that was refused comes back to its own
}

func (s *several) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	s.mu.Lock()
	n, ok := s.of[r]
	if !ok {
		n = s.next % len(s.managers)
		s.of[r] = n
		s.next++
	}
	s.mu.Unlock()
	return s.managers[n].AcquireRequest(ctx, r)
}

func (s *several) Close() error {
	for _, m := range s.managers {
		m.Close()
	}
	return nil
}

// Nor can anybody tell whether it is one manager or several, each of which gets every third request.
func TestSeveralManagersConformTogether(t *testing.T) {
	long(t)
	t.Parallel()
	limitertest.Strict(t, func(t *testing.T) httpclient.Limiter {
		server := memory(t)
		s := &several{of: make(map[*buckets.Request]int)}
		for range 3 {
			s.managers = append(s.managers, managerOn(t, server, buckets.WithGlobalLimit(0)))
		}
		return s
	},
		limitertest.WithMaxWait(buckets.DefaultMaxRateLimit),
		// Parts of the global limit move from manager to manager in a second, and not at once.
		limitertest.WithGlobalLimit(0),
		// Whoever waits for the bucket of a route to be found out comes into its queue manager by manager.
		limitertest.Without(limitertest.Order),
		// What a body contains and what the edge said each manager knows for itself, and ordered requests are those of one manager.
		limitertest.Without(limitertest.SubLimits, limitertest.Edge, limitertest.OneAtATime),
		// The state that they share knows the two kinds apart only by answers that come in time.
		limitertest.Without(limitertest.SlowRefill),
		// They tell each other of buckets and holds in a moment, and what a route's hash is, and who waits behind whom, as they ask.
		limitertest.Without(limitertest.OneMind))
}

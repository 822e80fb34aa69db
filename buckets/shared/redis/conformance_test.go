package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/limitertest"
	"github.com/ratelight/ratelight/internal/redistest"
)

// together are managers behind which it cannot be seen that they are several: each gets the next new request.
type together struct {
	managers []*buckets.RESTBucketManager

	mu   sync.Mutex
	next int
	of   map[*buckets.Request]int // which manager: a request that was refused comes back to its own
}

func (m *together) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	m.mu.Lock()
	n, ok := m.of[r]
	if !ok {
		n = m.next % len(m.managers)
		m.of[r] = n
		m.next++
	}
	m.mu.Unlock()
	return m.managers[n].AcquireRequest(ctx, r)
}

func (m *together) Close() error {
	for _, manager := range m.managers {
		manager.Close()
	}
	return nil
}

// conform runs what needs no precise time of the suite over so many managers that share an engine. Each case has keys of its own.
func conform(t *testing.T, managers int, options ...limitertest.Option) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	engine := redistest.NewEngine(t)
	var cases atomic.Int64
	limitertest.Core(t, func(t *testing.T) httpclient.Limiter {
		application := redis.WithApplication(fmt.Sprintf("case-%d", cases.Add(1)))
		all := &together{of: map[*buckets.Request]int{}}
		for range managers {
			store := open(t, engine.URL(), application)
			m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithLogger(nil), buckets.WithGlobalLimit(0))
			require.NoError(t, m.Start())
			t.Cleanup(func() { m.Close() })
			all.managers = append(all.managers, m)
		}
		return all
	}, append([]limitertest.Option{
		limitertest.Only("arguments/", "lease/ending", "lease/Return", "cancel/refused bucket/all", "cancel/while in flight", "close/"),
		limitertest.WithRealTime(), limitertest.WithPause(100 * time.Millisecond), limitertest.WithTolerance(5 * time.Second), limitertest.WithGlobalLimit(0),
	}, options...)...)
}

// The rest of the suite runs in virtual time, in the tests of buckets/shared.
func TestManagerOnARealEngineConforms(t *testing.T) {
	conform(t, 1)
}

func TestManagersOnARealEngineConformTogether(t *testing.T) {
	conform(t, 3, limitertest.Without(limitertest.OneMind))
}

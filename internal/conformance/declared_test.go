package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared/redis"
	"github.com/ratelight/ratelight/internal/redistest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Three managers share declared limits. Together they must keep these limits, and send all requests, however busy the
// machine is.
func TestManagersOnARealServerShareDeclaredLimits(t *testing.T) {
	t.Parallel()
	const limit, period = 4, 400 * time.Millisecond
	engine := redistest.NewEngine(t)
	create := buckets.ForRoute(routes.CreateMessage)
	var managers []*buckets.RESTBucketManager
	for range 3 {
		store, err := redis.Open(t.Context(), engine.URL(), redis.WithApplication("declared"))
		require.NoError(t, err)
		t.Cleanup(store.Close)
		m := buckets.NewRESTBucketManager(
			buckets.WithShared(store), buckets.WithGlobalLimit(0), buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(create, limit, period, buckets.PerGroup(), buckets.Named("group")),
			buckets.WithLimit(create, 2*limit, period, buckets.Named("all")),
		)
		require.NoError(t, m.Start())
		t.Cleanup(func() { m.Close() })
		managers = append(managers, m)
	}
	var mu sync.Mutex
	sent := map[string][]time.Time{}
	var all sync.WaitGroup
	for i := range 48 {
		group := fmt.Sprint("guild ", i%3)
		route, err := routes.CreateMessage.Compile(fmt.Sprint(1 + i%2))
		require.NoError(t, err)
		all.Go(func() {
			request := &buckets.Request{Route: route, Authorization: "Bot a", Group: group}
			lease, err := managers[i%5%3].AcquireRequest(context.Background(), request)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			sent[group], sent["all"] = append(sent[group], time.Now()), append(sent["all"], time.Now())
			mu.Unlock()
			lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "messages",
				Limit: 100, Remaining: 99, ResetAfter: time.Second})
		})
	}
	all.Wait()
	for key, times := range sent {
		most := limit
		if key == "all" {
			most = 2 * limit
		}
		slices.SortFunc(times, time.Time.Compare)
		for i := most; i < len(times); i++ {
			assert.GreaterOrEqual(t, times[i].Sub(times[i-most]), period, "more than %d of %s", most, key)
		}
	}
	assert.Len(t, sent["all"], 48)
}

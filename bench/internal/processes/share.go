package processes

import (
	"context"
	"fmt"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/buckets/shared/redis"
)

// policy is what a name stands for; the empty one stands for waiting.
func policy(name string) (shared.Outage, error) {
	for p := shared.OutageWait; p <= shared.OutageFull; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	if name == "" {
		return shared.OutageWait, nil
	}
	return 0, fmt.Errorf("there is no policy %q for outages", name)
}

// share opens what processes share and returns the options that make a manager use it. Close it after the manager.
func share(ctx context.Context, a assignment) (options []buckets.Option, close func(), err error) {
	if a.Engine == "" {
		return nil, func() {}, nil
	}
	outage, err := policy(a.Outage)
	if err != nil {
		return nil, nil, err
	}
	store, err := redis.Open(ctx, a.Engine, redis.WithApplication(a.Application), redis.WithOutage(outage), redis.WithEviction(), redis.WithLogger(nil))
	if err != nil {
		return nil, nil, err
	}
	return []buckets.Option{buckets.WithShared(store)}, store.Close, nil
}

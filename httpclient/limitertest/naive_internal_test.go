package limitertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// naive is a typical first attempt. It believes the latest headers for each route and major parameter. If no request
// remains, it sleeps until the reset.
type naive struct {
	mu     sync.Mutex
	states map[naiveKey]*naiveState
}

type naiveKey struct {
	route         routes.Route
	major         routes.Major
	authorization string
}

type naiveState struct {
	remaining int
	reset     time.Time
}

func newNaive(*testing.T) httpclient.Limiter { return &naive{states: make(map[naiveKey]*naiveState)} }

func (n *naive) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	key := naiveKey{r.Route.Route(), r.Route.Major(), r.Authorization}
	for {
		n.mu.Lock()
		s := n.states[key]
		if s == nil || s.remaining > 0 || !time.Now().Before(s.reset) {
			n.mu.Unlock()
			return buckets.NewLease(naiveEnd{n, key}), nil
		}
		wait := time.Until(s.reset)
		n.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return buckets.Lease{}, ctx.Err()
		}
	}
}

type naiveEnd struct {
	*naive
	key naiveKey
}

func (e naiveEnd) End(_ bool, r ratelimits.Response) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Limited {
		e.states[e.key] = &naiveState{r.Remaining, time.Now().Add(r.ResetAfter)}
	}
}

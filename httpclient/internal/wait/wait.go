// Package wait has the waits that no limiter sees to: those after a response that asks to come back later.
package wait

import (
	"context"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Check returns a *ratelimits.TooLongError for a wait that is longer than the context or longest allow, nil if it is not. What
// buckets.ContextWithMaxWait says counts in the place of longest.
func Check(ctx context.Context, route routes.CompiledRoute, wait, longest time.Duration) error {
	if own, ok := buckets.MaxWait(ctx); ok {
		longest = own
	}
	e := &ratelimits.TooLongError{Route: route.Route().String(), Wait: wait, Max: longest}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < longest {
		e.Max, e.Deadline = max(time.Until(deadline), 0), true
	}
	if wait > e.Max {
		return e
	}
	return nil
}

// For waits, unless a request's context or the life of its transport ends before. It is over early when a channel is closed.
func For(ctx, life context.Context, d time.Duration, early <-chan struct{}) error {
	select {
	case <-time.After(d):
		return nil
	case <-early:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-life.Done():
		return buckets.ErrClosed
	}
}

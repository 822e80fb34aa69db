// Package wait implements those waits that are not part of a limiter: after a response that says when to retry, and
// between attempts.
package wait

import (
	"context"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Check returns a *ratelimits.TooLongError if the wait exceeds longest or would end after the context's deadline, and
// nil otherwise. buckets.ContextWithMaxWait overrides longest.
func Check(ctx context.Context, route routes.CompiledRoute, wait, longest time.Duration) error {
	if o := buckets.OptionsOf(ctx); o.HasMaxWait {
		longest = o.MaxWait
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

// For waits for the duration d, or until early is closed. It returns an error if one of two contexts ends the wait:
// ctx, the context of the request, or life, the context of the transport.
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

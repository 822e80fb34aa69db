package buckets

import (
	"context"

	"github.com/ratelight/ratelight/ratelimits"
)

// Ender is what a limiter other than RESTBucketManager does when a lease of its ends.
type Ender interface {
	// End is called once, with whether the request was sent and what its response said: the zero Response if nobody knows.
	End(sent bool, r ratelimits.Response)
}

// NewLease returns a lease whose end is told to somebody else. It is for limiters that stand in for a RESTBucketManager.
func NewLease(e Ender) Lease {
	h := leases.Get().(*held)
	h.ender = e
	return h.lease()
}

// Unlimited is a limiter without limits: everything goes at once. Use it where something else limits, or in tests.
type Unlimited struct{}

// AcquireRequest grants at once. Its errors are the context's, ErrNoContext and ErrNoRoute.
func (Unlimited) AcquireRequest(ctx context.Context, r *Request) (Lease, error) {
	if err := checked(ctx, r); err != nil {
		return Lease{}, err
	}
	return NewLease(nothing{}), nil
}

// nothing is to be done at the end of a lease.
type nothing struct{}

func (nothing) End(bool, ratelimits.Response) {}

// checked returns the error for a call of AcquireRequest that cannot be granted by anybody.
func checked(ctx context.Context, r *Request) error {
	switch {
	case ctx == nil:
		return ErrNoContext
	case r == nil || r.Route.IsZero():
		return ErrNoRoute
	}
	return ctx.Err()
}

package buckets

import (
	"context"

	"github.com/ratelight/ratelight/ratelimits"
)

// ender is who is told of the end of a lease that is not a manager's.
type ender interface {
	End(sent bool, r ratelimits.Response)
}

// NewLease returns a lease that reports its end to the given value. It is for limiters that replace a
// RESTBucketManager.
//
// End is called once, with whether the request was sent and what its response said: the zero Response if that is
// unknown. If the value also has a method Refused(ratelimits.Response), Lease.Refused calls it: before End, unless
// different goroutines call the two at the same time.
func NewLease(end interface {
	End(sent bool, r ratelimits.Response)
}) Lease {
	e := ender(end)
	return newLease(&e)
}

func newLease(e *ender) Lease {
	h := leases.Get().(*held)
	h.ender.Store(e)
	return h.lease()
}

// foreign returns what the lease tells its end if it is not a manager's and has not ended, nil otherwise.
func (l Lease) foreign() ender {
	if l.held == nil {
		return nil
	}
	// In this order: what the lease stood for may be used again meanwhile, and has another generation then.
	if e := l.held.ender.Load(); e != nil && l.held.generation.Load() == l.generation {
		return *e
	}
	return nil
}

// Unlimited is a limiter that grants every request at once. Use it where something else limits, or in tests.
type Unlimited struct{}

// AcquireRequest grants at once. Its errors are the context's, ErrNoContext, and one for the zero route.
func (Unlimited) AcquireRequest(ctx context.Context, r *Request) (Lease, error) {
	if err := checked(ctx, r); err != nil {
		return Lease{}, err
	}
	return newLease(&noEnd), nil
}

// nothing is to be done at the end of a lease.
type nothing struct{}

var noEnd ender = nothing{} // of all leases for which there is nothing to do

func (nothing) End(bool, ratelimits.Response) {}

package limitertest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// manager returns a running manager, a limiter without mistakes.
func manager(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	m := buckets.NewRESTBucketManager(options...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { m.Close() })
	return m
}

// altered is a limiter that changes what its inner limiter gets: contexts, requests and responses. Each function may be
// nil.
type altered struct {
	inner   httpclient.Limiter
	context func(ctx context.Context) context.Context
	request func(r *buckets.Request)
	sent    func(sent bool, r ratelimits.Response) bool
	answer  func(r *ratelimits.Response)
	end     func(end func())
	err     func(err error, r *buckets.Request) error
}

func (a *altered) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if a.context != nil && ctx != nil {
		ctx = a.context(ctx)
	}
	if a.request != nil && r != nil {
		altered := *r
		a.request(&altered)
		r = &altered
	}
	lease, err := a.inner.AcquireRequest(ctx, r)
	if err != nil {
		if a.err != nil {
			err = a.err(err, r)
		}
		return buckets.Lease{}, err
	}
	return buckets.NewLease(alteredEnd{a, lease}), nil
}

// Close closes the inner limiter.
func (a *altered) Close() error { return a.inner.(interface{ Close() error }).Close() }

type alteredEnd struct {
	*altered
	lease buckets.Lease
}

func (e alteredEnd) End(sent bool, r ratelimits.Response) {
	if e.sent != nil {
		sent = e.sent(sent, r)
	}
	if e.answer != nil {
		e.answer(&r)
	}
	end := func() {
		switch {
		case !sent:
			e.lease.Return()
		case r == (ratelimits.Response{}):
			e.lease.Release()
		default:
			e.lease.Update(r)
		}
	}
	if e.end != nil {
		e.end(end)
		return
	}
	end()
}

// alter returns a function that makes a manager altered like a.
func alter(a altered) func(t *testing.T) httpclient.Limiter {
	return func(t *testing.T) httpclient.Limiter {
		a := a
		a.inner = manager(t)
		return &a
	}
}

// answering changes the responses of one class before the manager gets them.
func answering(class ratelimits.Class, change func(r *ratelimits.Response)) func(t *testing.T) httpclient.Limiter {
	return alter(altered{answer: func(r *ratelimits.Response) {
		if r.Class == class && r.Status > 0 {
			change(r)
		}
	}})
}

// ignore replaces a refusal with a response that says nothing about limits.
func ignore(r *ratelimits.Response) { *r = ratelimits.Response{Status: 500} }

// asUser makes a refusal look like one of the bucket.
func asUser(r *ratelimits.Response) { r.Class = ratelimits.ClassUser }

// without hides the deadline of a context, its values or its end.
type without struct {
	context.Context
	deadline, values, end bool
}

func (w without) Deadline() (time.Time, bool) {
	if w.deadline {
		return time.Time{}, false
	}
	return w.Context.Deadline()
}

func (w without) Value(key any) any {
	if w.values {
		return nil
	}
	return w.Context.Value(key)
}

func (w without) Done() <-chan struct{} {
	if w.end {
		return nil
	}
	return w.Context.Done()
}

func (w without) Err() error {
	if w.end {
		return nil
	}
	return w.Context.Err()
}

// fixedMajor returns the same route with a major parameter that is always the same.
func fixedMajor(route routes.CompiledRoute) routes.CompiledRoute {
	switch route.Route() {
	case message(1).Route():
		return message(1)
	case history(1).Route():
		return history(1)
	case rename(1).Route():
		return rename(1)
	}
	return route
}

// slowly blocks the end of a lease for a second.
func slowly(*ratelimits.Response) { time.Sleep(time.Second) }

package limitertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// leaking does not withdraw requests whose contexts have ended, and never ends the leases that these get.
type leaking struct{ inner httpclient.Limiter }

func (l leaking) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if ctx == nil {
		return l.inner.AcquireRequest(ctx, r)
	}
	type result struct {
		lease buckets.Lease
		err   error
	}
	results := make(chan result, 1)
	go func() {
		lease, err := l.inner.AcquireRequest(without{Context: ctx, end: true}, r)
		results <- result{lease, err}
	}()
	select {
	case got := <-results:
		return got.lease, got.err
	case <-ctx.Done():
		return buckets.Lease{}, ctx.Err()
	}
}

// lastComeFirstServed gives requests to its inner limiter one at a time, the latest first.
type lastComeFirstServed struct {
	inner httpclient.Limiter
	mu    sync.Mutex
	busy  bool
	stack []chan struct{}
}

func (l *lastComeFirstServed) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	l.mu.Lock()
	if l.busy {
		turn := make(chan struct{})
		l.stack = append(l.stack, turn)
		l.mu.Unlock()
		<-turn // the end of the context does not end this wait, which is wrong, too
		l.mu.Lock()
	}
	l.busy = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.busy = len(l.stack) > 0; l.busy {
			close(l.stack[len(l.stack)-1])
			l.stack = l.stack[:len(l.stack)-1]
		}
	}()
	return l.inner.AcquireRequest(ctx, r)
}

// shortening is a manager that drops earlier holds at each refusal, so that only the latest counts.
func shortening(t *testing.T) httpclient.Limiter {
	m := manager(t)
	return &altered{inner: m, answer: func(r *ratelimits.Response) {
		if r.Class != ratelimits.ClassOK {
			m.LiftHolds()
		}
	}}
}

// forgetful replaces its manager when no request has come for a while.
type forgetful struct {
	t     *testing.T
	mu    sync.Mutex
	inner httpclient.Limiter
	asked time.Time
}

func (f *forgetful) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	f.mu.Lock()
	if f.inner == nil || time.Since(f.asked) > 5*time.Second {
		f.inner = manager(f.t)
	}
	f.asked = time.Now()
	inner := f.inner
	f.mu.Unlock()
	return inner.AcquireRequest(ctx, r)
}

// open is a limiter whose Close does nothing.
type open struct{ httpclient.Limiter }

func (open) Close() error { return nil }

// careless does not check its arguments.
type careless struct{ inner httpclient.Limiter }

func (c careless) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if _, ok := ctx.Deadline(); ok || r.Authorization != "" && r.Route.IsZero() {
		return buckets.NewLease(alteredEnd{&altered{}, buckets.Lease{}}), nil
	}
	return c.inner.AcquireRequest(ctx, r)
}

// serial lets only one request be in flight, whatever its route or credential.
type serial struct {
	inner httpclient.Limiter
	turn  chan struct{}
}

func (s serial) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return buckets.Lease{}, ctx.Err()
	}
	lease, err := s.inner.AcquireRequest(ctx, r)
	if err != nil {
		<-s.turn
		return lease, err
	}
	return buckets.NewLease(alteredEnd{&altered{answer: func(*ratelimits.Response) { <-s.turn }}, lease}), nil
}

// stubborn waits for ever unless the first response is a success with limit headers and a bucket hash.
type stubborn struct {
	inner httpclient.Limiter
	mu    sync.Mutex
	known bool
	stuck bool
}

func (s *stubborn) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	lease, err := s.inner.AcquireRequest(ctx, r)
	if err != nil {
		return lease, err
	}
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck {
		lease.Return()
		<-ctx.Done()
		return buckets.Lease{}, ctx.Err()
	}
	return buckets.NewLease(alteredEnd{&altered{answer: s.learn}, lease}), nil
}

func (s *stubborn) learn(r *ratelimits.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = s.stuck || !s.known &&
		!(r.Limited && r.Class == ratelimits.ClassOK && r.Bucket != "" && r.Remaining < r.Limit && r.ResetAfter > 0)
	s.known = true
}

package limitertest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// manager returns a running manager, a limiter without mistakes.
func manager(t *testing.T, options ...buckets.Option) *buckets.RESTBucketManager {
	m := buckets.NewRESTBucketManager(options...)
	require.NoError(t, m.Start())
	t.Cleanup(func() { m.Close() })
	return m
}

// managed returns a function that makes managers with these options.
func managed(options ...buckets.Option) func(t *testing.T) httpclient.Limiter {
	return func(t *testing.T) httpclient.Limiter { return manager(t, options...) }
}

func unlimited(*testing.T) httpclient.Limiter { return buckets.Unlimited{} }

// mutant describes a manager with one mistake. All fields may be zero. The functions replace or change what the manager
// gets and returns.
type mutant struct {
	name  string
	fails string           // prefixes of the names of the cases that must find the mistake, between semicolons
	with  []buckets.Option // options of the manager
	suite []Option

	context func(ctx context.Context) context.Context
	favours bool // every second request has priority
	request func(r *buckets.Request)
	acquire func(l *limiter, ctx context.Context, r *buckets.Request) (buckets.Lease, error) // replaces AcquireRequest
	err     func(err error, r *buckets.Request) error
	answer  func(r *ratelimits.Response)
	sent    func(sent bool, r ratelimits.Response) bool
	end     func(l *limiter, r ratelimits.Response, end func()) // calls its end if the lease is to end
	obeys   int                                                 // how many 429s are not ignored, 0: all
	forgets bool                                                // the manager is replaced after 5 s without a call
	open    bool                                                // Close does nothing
}

func (m mutant) limiter(t *testing.T) httpclient.Limiter {
	return &limiter{mutant: m, t: t, manager: manager(t, m.with...)}
}

// limiter is a limiter with the mistake of a mutant.
type limiter struct {
	mutant
	t        *testing.T
	refusals atomic.Int64 // 429s so far

	mu      sync.Mutex
	calls   int
	asked   time.Time // time of the latest call
	manager *buckets.RESTBucketManager
}

// next counts a call of AcquireRequest and returns the manager for it.
func (l *limiter) next() (number int, m *buckets.RESTBucketManager) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgets && l.calls > 0 && time.Since(l.asked) > 5*time.Second {
		l.manager = manager(l.t)
	}
	l.calls, l.asked = l.calls+1, time.Now()
	return l.calls, l.manager
}

func (l *limiter) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	number, manager := l.next()
	if l.context != nil && ctx != nil {
		ctx = l.context(ctx)
	}
	if l.favours && number%2 == 0 {
		ctx = buckets.ContextWithPriority(ctx)
	}
	if l.request != nil && r != nil {
		changed := *r
		l.request(&changed)
		r = &changed
	}
	acquire := manager.AcquireRequest
	if l.acquire != nil {
		acquire = func(ctx context.Context, r *buckets.Request) (buckets.Lease, error) { return l.acquire(l, ctx, r) }
	}
	lease, err := acquire(ctx, r)
	if err != nil {
		if l.err != nil {
			err = l.err(err, r)
		}
		return buckets.Lease{}, err
	}
	return buckets.NewLease(mutantEnd{l, lease}), nil
}

// Close closes the manager.
func (l *limiter) Close() error {
	if l.open {
		return nil
	}
	return l.manager.Close()
}

type mutantEnd struct {
	*limiter
	lease buckets.Lease
}

func (e mutantEnd) End(sent bool, r ratelimits.Response) {
	if e.sent != nil {
		sent = e.sent(sent, r)
	}
	if r.Status == http.StatusTooManyRequests && e.refusals.Add(1) > int64(e.obeys) && e.obeys > 0 {
		ignore(&r)
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
		e.end(e.limiter, r, end)
		return
	}
	end()
}

// noDeadline hides the deadline of a context.
type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// noValues hides the values of a context.
type noValues struct{ context.Context }

func (noValues) Value(any) any { return nil }

// leak stops a wait at the end of its context, but the request stays in the manager, and its lease is never ended.
func leak(l *limiter, ctx context.Context, r *buckets.Request) (lease buckets.Lease, err error) {
	if ctx == nil {
		return l.manager.AcquireRequest(ctx, r)
	}
	granted := make(chan struct{})
	var inner buckets.Lease
	var failed error
	go func() {
		inner, failed = l.manager.AcquireRequest(context.WithoutCancel(ctx), r)
		close(granted)
	}()
	select {
	case <-granted:
		return inner, failed
	case <-ctx.Done():
		return buckets.Lease{}, ctx.Err()
	}
}

// trust accepts all arguments. It grants a request at once if the context has a deadline, or if the request has an
// Authorization but no route.
func trust(l *limiter, ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if _, ok := ctx.Deadline(); ok || r.Authorization != "" && r.Route.IsZero() {
		return buckets.Unlimited{}.AcquireRequest(ctx, &buckets.Request{Route: routeOf("message1")})
	}
	return l.manager.AcquireRequest(ctx, r)
}

// answering returns a function that changes the responses of one class.
func answering(class ratelimits.Class, change func(r *ratelimits.Response)) func(r *ratelimits.Response) {
	return func(r *ratelimits.Response) {
		if r.Class == class && r.Status > 0 {
			change(r)
		}
	}
}

// ignore replaces a refusal with a response that says nothing about limits.
func ignore(r *ratelimits.Response) { *r = ratelimits.Response{Status: 500} }

// asClass returns a function that changes the class of a refusal.
func asClass(class ratelimits.Class) func(r *ratelimits.Response) {
	return func(r *ratelimits.Response) { r.Class = class }
}

// blocksIf returns a function that blocks for a second before a lease ends, if the condition is true.
func blocksIf(condition func(sent bool, r ratelimits.Response) bool) func(sent bool, r ratelimits.Response) bool {
	return func(sent bool, r ratelimits.Response) bool {
		if condition(sent, r) {
			time.Sleep(time.Second)
		}
		return sent
	}
}

// hideBucket removes the bucket hash.
func hideBucket(r *ratelimits.Response) { r.Bucket = "" }

// toOneRoute sends every request to the same route and channel.
func toOneRoute(r *buckets.Request) { r.Route = routeOf("message1") }

// toOneChannel replaces the major parameter of the usual routes.
func toOneChannel(r *buckets.Request) {
	for _, spec := range []string{"message1", "history1", "rename1"} {
		if r.Route.Route() == routeOf(spec).Route() {
			r.Route = routeOf(spec)
		}
	}
}

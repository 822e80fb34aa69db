package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may be sent. *buckets.RESTBucketManager is one, buckets.Unlimited is one that grants
// everything at once. Package limitertest tests other implementations.
//
// A limiter reads the options in a context with buckets.MaxWait, buckets.Ordered and buckets.Priority. A bucket is
// identified by the request's Server, the response's hash and the route's major parameter: different servers share
// nothing. The end of a lease reports the response, or that it was lost, in which case the server may have counted the
// request. The invalid request budget belongs to the manager: other limiters have none.
type Limiter interface {
	// AcquireRequest waits until the request may be sent, and returns its lease. The request is then sent at once, and
	// the lease is always ended. After a 429 it is called again with the same Request. It must be safe for concurrent
	// use and return when the context ends.
	AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error)
}

var (
	_ Limiter = (*buckets.RESTBucketManager)(nil)
	_ Limiter = buckets.Unlimited{}
)

// edgeWait asks the limiter how long everything is held back after a refusal at the edge, 0 if it does not know.
func edgeWait(l Limiter, server string) time.Duration {
	if e, ok := l.(interface{ EdgeWait(string) time.Duration }); ok {
		return e.EdgeWait(server)
	}
	return 0
}

// liftSignal tells those who wait after a 429 by themselves, as the limiter does not see to that, that the holds are lifted.
type liftSignal struct {
	mu     sync.Mutex
	lifted chan struct{} // nil if nobody has asked for it
}

// next returns a channel that is closed when holds are lifted for the next time.
func (l *liftSignal) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lifted == nil {
		l.lifted = make(chan struct{})
	}
	return l.lifted
}

func (l *liftSignal) lift() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lifted != nil {
		close(l.lifted)
		l.lifted = nil
	}
}

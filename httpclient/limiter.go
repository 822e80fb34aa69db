package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may leave. *buckets.RESTBucketManager is one, buckets.Unlimited is one that does nothing, and
// package limitertest tests others.
//
// What a context asks for is read with buckets.MaxWait, buckets.Ordered and buckets.Priority. A bucket is identified by the
// request's Server, the response's hash and the route's major parameter: different servers share nothing. The lease ends with the response, or
// with that it was lost, in which case the server may have counted the request. The invalid request budget is the manager's: with another
// limiter there is none.
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

// liftSignal ends the waits after 429s that the limiter does not see to when the holds are lifted.
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

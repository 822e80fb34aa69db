package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may be sent. *buckets.RESTBucketManager implements it, and so does buckets.Unlimited,
// which never waits. Package limitertest tests other implementations.
//
// buckets.MaxWait, buckets.Ordered and buckets.Priority return the options of a context. A bucket is identified by the
// request's Server, the bucket hash of the response and the route's major parameter: different servers share nothing.
// The lease ends with the response, or with the report that the request was lost; the server may have counted a lost
// request. Only a manager has a budget of invalid requests.
type Limiter interface {
	// AcquireRequest waits until the request may be sent, and returns its lease. The transport then sends the request
	// at once, and always ends the lease. After a 429 it calls AcquireRequest again with the same Request.
	// AcquireRequest must be safe for concurrent use and return when the context ends.
	AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error)
}

var (
	_ Limiter = (*buckets.RESTBucketManager)(nil)
	_ Limiter = buckets.Unlimited{}
)

// edgeWait returns how long the limiter holds all requests after a refusal at the edge, 0 if the limiter does not tell.
func edgeWait(l Limiter, server string) time.Duration {
	if e, ok := l.(interface{ EdgeWait(string) time.Duration }); ok {
		return e.EdgeWait(server)
	}
	return 0
}

// liftSignal ends the waits of waitAfterRefusal when holds are lifted.
type liftSignal struct {
	mu     sync.Mutex
	lifted chan struct{} // nil until next is called
}

// next returns a channel that is closed at the next lift.
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

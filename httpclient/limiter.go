package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may be sent. *buckets.RESTBucketManager implements it, and so does buckets.Unlimited,
// which never waits. Package limitertest tests other implementations, and has a small one as its example.
//
// limitertest.Core tests these duties of a limiter, in this order:
//
//   - Arguments: without a request or a route, or with a context that has ended, it returns an error at once, and the
//     zero Lease. Without a context it may panic.
//   - Leases: only the first call that ends a lease counts, and no such call blocks. After Return another request can
//     be sent, because this request was not. After Release, or a response without limit headers, the server
//     may have counted the request.
//   - Cancelling: when its context ends, a wait ends at once with the error of the context, and holds nothing any more.
//   - Deadlines: a request that can be sent before its deadline is granted.
//   - Refusals: a 429 holds at least its bucket, and after ClassGlobal all of the credential's requests except those
//     that are Route.GlobalExempt, for RetryAfter. ClassEdge holds all requests, also if RetryAfter is missing. Then
//     the requests continue. A shorter hold never replaces a longer one.
//   - Discovery: on an unknown route one request is sent first. Whatever its outcome, the other requests continue.
//   - Buckets: a bucket is identified by the request's Server and credential, the response's bucket hash (without one,
//     the route) and the route's major parameter. Routes with the same hash share a bucket. Servers share nothing.
//   - Failures: server errors, lost requests and late responses neither stop a bucket nor raise its limit.
//   - Windows: no bucket sends more than its limit allows, whether its window is fixed, sliding or a token bucket,
//     whatever the round trip, and in whatever order responses arrive.
//   - Global limit: a credential sends no more requests per second than it may. Interactions do not count.
//   - Other clients: Remaining also counts requests that other clients have sent with the credential.
//   - Changes: each response can name another hash or another limit.
//   - Memory: nothing is evicted while that can cause a 429.
//   - Close, if the limiter has it: it ends all waits and all later calls with an error.
//
// limitertest.Strict also tests the order of arrival, early rejection, throughput, and that a request waits only for
// limits that apply to it. buckets.OptionsOf returns the options of a context. A limiter may ignore them, and
// Request.Supersedes, too. Only a manager has a budget of invalid requests.
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

// edgeWait returns how long the limiter holds all requests after a refusal at the edge, 0 if the limiter has no such
// method.
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

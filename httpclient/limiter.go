package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may be sent. *buckets.RESTBucketManager implements Limiter, and so does
// buckets.Unlimited, which never waits. Package limitertest tests other implementations, and its example is a small
// implementation.
//
// limitertest.Core tests that a limiter behaves as follows, in this order:
//
//   - Arguments: without a request or a route, or with a context that has ended, AcquireRequest returns an error and
//     the zero Lease at once. With a nil context it may panic.
//   - Leases: only the first call that ends a lease counts, and no such call blocks. After Return, another request can
//     be sent, because the request of the lease was not sent. After Release, or a response without limit headers, the
//     limiter assumes that the server may have counted the request.
//   - Cancelling: when the context of a waiting request ends, its wait ends at once with the error of the context, and
//     the request no longer takes up any part of a limit.
//   - Deadlines: a request that can be sent before its deadline is granted.
//   - Refusals: a 429 holds at least its bucket for RetryAfter. One of ClassGlobal holds all requests of the credential
//     except those with Route.GlobalExempt. One of ClassEdge holds all requests to the server, also if RetryAfter is
//     missing. After the hold the requests continue. A shorter hold never replaces a longer one.
//   - Discovery: on an unknown route one request is sent first. Whatever its outcome, the other requests continue.
//   - Buckets: a bucket is identified by the request's Server and credential, the response's bucket hash (or, without a
//     hash, the route) and the route's major parameter. Routes with the same hash share a bucket. Servers share
//     nothing.
//   - Failures: server errors, lost requests and late responses neither stop a bucket nor raise its limit.
//   - Windows: no bucket sends more than its limit allows, whether its window is fixed, sliding or a token bucket,
//     whatever the round trip, and in whatever order responses arrive.
//   - Global limit: with one credential, no more requests are sent per second than the global limit allows.
//     Interactions do not count.
//   - Other clients: the limiter obeys a Remaining that is smaller because other clients have sent requests with the
//     credential.
//   - Changes: each response may name another hash or another limit than the previous one, and the limiter follows it.
//   - Memory: nothing is evicted as long as its eviction could cause a 429.
//   - Close, if the limiter has this method: all waits and all later calls of AcquireRequest end with an error.
//
// limitertest.Strict also tests the order of arrival, early rejection, throughput, and that a request waits only for
// limits that apply to it. buckets.OptionsOf returns the options of a context. A limiter does not have to implement
// these, nor Request.Supersedes. Only a manager has a budget of invalid requests.
type Limiter interface {
	// AcquireRequest waits until the request may be sent, and returns its lease. The transport then sends the request
	// at once, and always ends the lease. To send the request again, it calls AcquireRequest with the same Request.
	// AcquireRequest must be safe for concurrent use, and must return when the context ends.
	AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error)
}

var (
	_ Limiter = (*buckets.RESTBucketManager)(nil)
	_ Limiter = buckets.Unlimited{}
)

// edgeWait returns how long the limiter holds all requests after a refusal at the edge, 0 if the limiter has no method
// EdgeWait.
func edgeWait(l Limiter, server string) time.Duration {
	if e, ok := l.(interface{ EdgeWait(string) time.Duration }); ok {
		return e.EdgeWait(server)
	}
	return 0
}

// liftSignal ends the waits of waitAfterRefusal when LiftHolds is called.
type liftSignal struct {
	mu     sync.Mutex
	lifted chan struct{} // nil until next is called
}

// next returns a channel that is closed by the next call of lift.
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

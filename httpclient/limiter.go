package httpclient

import (
	"context"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// Limiter decides when requests may be sent. *buckets.RESTBucketManager is a Limiter. buckets.Unlimited is another one,
// which never waits. Package limitertest has tests for other implementations. The example of that package is a small
// implementation.
//
// limitertest.Core tests that a limiter behaves as follows, in the order of this list:
//
//   - Arguments: without a request or a route, or with a context that has ended, AcquireRequest returns an error and
//     the zero Lease at once. With a nil context, AcquireRequest may panic.
//   - Leases: only the first call that ends a lease counts, and no such call blocks. After Return, another request can
//     be sent, because the request of the lease was not sent. After Release, or a response without limit headers, the
//     limiter assumes that the server may have counted the request.
//   - Cancelling: when the context of a waiting request ends, the wait ends at once with the error of the context, and
//     the request no longer takes up any part of a limit.
//   - Deadlines: a request that can be sent before its deadline is granted.
//   - Refusals: after a 429, the requests of its bucket are held (are not sent) for RetryAfter. Requests of other
//     buckets may also be held. A 429 of ClassGlobal holds all requests of the credential except those with
//     Route.GlobalExempt. A 429 of ClassEdge holds all requests to the server, even if RetryAfter is missing. After the
//     hold, the requests are sent. A shorter hold never replaces a longer one.
//   - Discovery: on an unknown route, one request is sent first. The other requests follow when the first request has
//     ended, whatever its outcome is.
//   - Buckets: a bucket is identified by the request's Server and credential, the response's bucket hash (or, without a
//     hash, the route) and the route's major parameter. Routes with the same hash share a bucket. Different servers
//     share nothing.
//   - Failures: server errors, lost requests and late responses neither stop a bucket for ever nor raise its limit.
//   - Windows: no bucket sends more than its limit allows. This is true for fixed windows, sliding windows and token
//     buckets, however long the round trips are, and in whatever order responses arrive.
//   - Global limit: with one credential, no more requests are sent per second than the global limit allows. Requests
//     that respond to interactions do not count.
//   - Other clients: if other clients have sent requests with the same credential, the Remaining of a response is
//     smaller than the limiter expects. The limiter obeys this Remaining.
//   - Changes: if a response names another hash or another limit than the previous response, the limiter uses the new
//     hash or limit.
//   - Memory: no state is evicted as long as its eviction could cause a 429.
//   - Close, if the limiter has this method: all waits and all later calls of AcquireRequest end with an error.
//
// limitertest.Strict also tests the order of arrival, early rejection, throughput, and that a request waits only for
// limits that apply to it. buckets.OptionsOf returns the options of a context. A limiter may ignore these options, and
// Request.Supersedes. Only a manager has a budget of invalid requests.
type Limiter interface {
	// AcquireRequest waits until the request may be sent, and returns its lease. The transport then sends the request at
	// once, and ends the lease in any case. Before it sends the request again, it calls AcquireRequest with the same
	// Request. AcquireRequest must be safe for concurrent use, and must return when the context ends.
	AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error)
}

var (
	_ Limiter = (*buckets.RESTBucketManager)(nil)
	_ Limiter = buckets.Unlimited{}
)

// edgeWait returns how long the limiter still holds all requests after a refusal at the edge. If the limiter has no
// method EdgeWait, edgeWait returns 0.
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

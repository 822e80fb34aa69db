package limitertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Sequential is a limiter that sends one request at a time for each credential. It is slow but safe, because it sends a
// request only after the previous response, which says how many more requests its bucket allows. Sequential has no
// global limit and never evicts anything.
type Sequential struct {
	turns sync.Map // by credential: a channel that is full while a request is in flight

	mu      sync.Mutex               // guards all fields below
	hashes  map[routes.Route]string  // bucket hashes that responses have named
	windows map[windowKey]*window    // what remains of each bucket
	holds   map[credential]time.Time // no request is sent before this time; the zero credential holds all requests
}

type credential struct{ server, authorization string }

// windowKey identifies a window by the bucket hash, or by the route until a response names a hash.
type windowKey struct {
	credential credential
	route      routes.Route
	hash       string
	major      routes.Major
}

type window struct {
	limit, remaining int
	period           time.Duration // the longest ResetAfter so far
	reset            time.Time
}

// NewSequential returns a Sequential that knows nothing yet.
func NewSequential() *Sequential {
	return &Sequential{
		hashes: make(map[routes.Route]string), windows: make(map[windowKey]*window), holds: make(map[credential]time.Time),
	}
}

// AcquireRequest waits until no other request of the credential is in flight, and then until the window and the holds
// of the request allow it.
func (s *Sequential) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if r == nil || r.Route.IsZero() {
		return buckets.Lease{}, errors.New("the request has no route")
	}
	if err := ctx.Err(); err != nil {
		return buckets.Lease{}, err
	}
	l := &lease{limiter: s, route: r.Route, credential: credential{r.Server, r.Authorization}}
	turn, _ := s.turns.LoadOrStore(l.credential, make(chan struct{}, 1))
	l.turn = turn.(chan struct{})
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return buckets.Lease{}, ctx.Err()
	}
	for wait := l.wait(); wait > 0; wait = l.wait() {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			<-l.turn
			return buckets.Lease{}, ctx.Err()
		}
	}
	return buckets.NewLease(l), nil
}

// lease is the permission to send one request.
type lease struct {
	limiter    *Sequential
	route      routes.CompiledRoute
	credential credential
	turn       chan struct{}
}

// wait returns the time until the request may be sent.
func (l *lease) wait() time.Duration {
	l.limiter.mu.Lock()
	defer l.limiter.mu.Unlock()
	wait := max(time.Until(l.limiter.holds[credential{}]), time.Until(l.limiter.holds[l.credential]))
	if w := l.windowLocked(); w.remaining < 1 {
		wait = max(wait, time.Until(w.reset))
	}
	return wait
}

// windowLocked returns the window that counts the request. A new window allows one request.
func (l *lease) windowLocked() *window {
	key := windowKey{credential: l.credential, route: l.route.Route(), major: l.route.Major()}
	if hash := l.limiter.hashes[key.route]; hash != "" {
		key.route, key.hash = routes.Route{}, hash
	}
	w := l.limiter.windows[key]
	if w == nil {
		w = &window{limit: 1, remaining: 1}
		l.limiter.windows[key] = w
	}
	return w
}

// End records what the response says, and lets the next request of the credential proceed. The Lease calls End once.
func (l *lease) End(sent bool, r ratelimits.Response) {
	defer func() { <-l.turn }()
	if !sent {
		return
	}
	l.limiter.mu.Lock()
	defer l.limiter.mu.Unlock()
	if r.Bucket != "" {
		l.limiter.hashes[l.route.Route()] = r.Bucket
	}
	until := time.Now().Add(r.RetryAfter)
	if !r.HasRetryAfter {
		until = time.Now().Add(5 * time.Second) // a refusal without a time is still a refusal
	}
	switch w := l.windowLocked(); r.Class {
	case ratelimits.ClassEdge:
		l.limiter.holdLocked(credential{}, until)
	case ratelimits.ClassGlobal:
		l.limiter.holdLocked(l.credential, until)
	case ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassSubLimit:
		w.remaining, w.reset = 0, until
	default:
		w.count(time.Now(), r)
	}
}

// holdLocked extends a hold. A hold never becomes shorter, because responses can arrive in any order.
func (s *Sequential) holdLocked(c credential, until time.Time) {
	if until.After(s.holds[c]) {
		s.holds[c] = until
	}
}

// count records a request that was not refused. Even without limit headers or a response, the server may have counted
// it.
func (w *window) count(now time.Time, r ratelimits.Response) {
	if r.Limited {
		w.limit, w.remaining = r.Limit, r.Remaining
		w.reset = now.Add(r.ResetAfter + time.Millisecond) // the header is rounded down
		w.period = max(w.period, r.ResetAfter)
		return
	}
	if !now.Before(w.reset) {
		w.remaining, w.reset = w.limit, now.Add(w.period)
	}
	w.remaining--
}

// A limiter in about a hundred lines of code that passes Core:
//
//	func TestSequential(t *testing.T) {
//		limitertest.Core(t, func(*testing.T) httpclient.Limiter { return NewSequential() }, limitertest.WithGlobalLimit(0))
//	}
func Example() {
	limiter := NewSequential()
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		lease, err := limiter.AcquireRequest(ctx, &buckets.Request{Route: route, Authorization: "Bot token"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the request may be sent")
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 0, ResetAfter: time.Minute})
	}
	// Output:
	// the request may be sent
	// context deadline exceeded
}

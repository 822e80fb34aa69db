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

// Patient is a limiter that sends one request after the other with each credential. It is as slow as that, and safe, because every answer
// says what is left before the next request leaves.
type Patient struct {
	mu      sync.Mutex
	turns   map[string]chan struct{} // by credential: full while a request is under way
	hashes  map[string]string        // of routes: the bucket that answers have named
	windows map[windowKey]*window    // by credential, bucket and major parameter
	holds   map[string]time.Time     // by credential; "" is everything
}

// windowKey identifies a window. The bucket is its hash, or the route until a response names one.
type windowKey struct {
	credential, bucket string
	major              routes.Major
}

// window is what is left of a bucket's window.
type window struct {
	limit, left int
	period      time.Duration // the longest that was named
	end         time.Time
}

func NewPatient() *Patient {
	return &Patient{
		turns: make(map[string]chan struct{}), hashes: make(map[string]string),
		windows: make(map[windowKey]*window), holds: make(map[string]time.Time),
	}
}

// permission is the permission to send one request.
type permission struct {
	limiter    *Patient
	request    *buckets.Request
	credential string
	turn       chan struct{}
}

// AcquireRequest waits for the answer to the request before, and then until nothing speaks against sending.
func (l *Patient) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	if r == nil || r.Route.IsZero() {
		return buckets.Lease{}, errors.New("patient: no request")
	}
	if err := ctx.Err(); err != nil {
		return buckets.Lease{}, err
	}
	p := permission{limiter: l, request: r, credential: r.Server + " " + r.Authorization}
	l.mu.Lock()
	if l.turns[p.credential] == nil {
		l.turns[p.credential] = make(chan struct{}, 1)
	}
	p.turn = l.turns[p.credential]
	l.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return buckets.Lease{}, ctx.Err()
	}
	for wait := p.wait(); wait > 0; wait = p.wait() {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			<-p.turn
			return buckets.Lease{}, ctx.Err()
		}
	}
	return buckets.NewLease(p), nil
}

// window returns the window in which the request counts. The caller holds the lock.
func (p permission) window() *window {
	name := p.request.Route.Route().String()
	if hash := p.limiter.hashes[name]; hash != "" {
		name = hash
	}
	key := windowKey{p.credential, name, p.request.Route.Major()}
	w := p.limiter.windows[key]
	if w == nil {
		w = &window{limit: 1, left: 1}
		p.limiter.windows[key] = w
	}
	return w
}

// wait is the time until the request may leave.
func (p permission) wait() time.Duration {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	wait := max(time.Until(p.limiter.holds[""]), time.Until(p.limiter.holds[p.credential]))
	if w := p.window(); w.left < 1 {
		wait = max(wait, time.Until(w.end))
	}
	return wait
}

// End learns from the answer, and lets the next request go.
func (p permission) End(sent bool, r ratelimits.Response) {
	l, now := p.limiter, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { <-p.turn }()
	if !sent {
		return
	}
	if r.Bucket != "" {
		l.hashes[p.request.Route.Route().String()] = r.Bucket
	}
	w, retryAfter := p.window(), r.RetryAfter
	if !r.HasRetryAfter {
		retryAfter = 5 * time.Second // a refusal that does not say how long
	}
	switch r.Class {
	case ratelimits.ClassEdge:
		l.hold("", now.Add(retryAfter))
	case ratelimits.ClassGlobal:
		l.hold(p.credential, now.Add(retryAfter))
	case ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassSubLimit:
		w.left, w.end = 0, now.Add(retryAfter)
	default:
		w.count(now, r)
	}
}

// hold lets nothing leave before a moment. Answers may come in any order, and a shorter wait does not take back a longer one.
func (l *Patient) hold(credential string, until time.Time) {
	if until.After(l.holds[credential]) {
		l.holds[credential] = until
	}
}

// count notes a request that was not refused. An answer that says nothing, or none, may still have been counted.
func (w *window) count(now time.Time, r ratelimits.Response) {
	if r.Limited {
		w.limit, w.left, w.end = r.Limit, r.Remaining, now.Add(r.ResetAfter+time.Millisecond) // headers are rounded
		w.period = max(w.period, r.ResetAfter)
		return
	}
	if !now.Before(w.end) {
		w.left, w.end = w.limit, now.Add(w.period)
	}
	w.left--
}

// A limiter of somebody else's, in about a hundred lines. That it is safe is tested by
//
//	limitertest.Core(t, func(*testing.T) httpclient.Limiter { return NewPatient() }, limitertest.WithGlobalLimit(0))
func Example() {
	limiter := NewPatient()
	route, err := routes.CreateMessage.Compile("1")
	if err != nil {
		panic(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		lease, err := limiter.AcquireRequest(ctx, &buckets.Request{Route: route, Authorization: "Bot token"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("may leave")
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Limit: 5, Remaining: 0, ResetAfter: time.Minute})
	}
	// Output:
	// may leave
	// context deadline exceeded
}

package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// ask is one call of Acquire: what is asked for, and how long it may take.
type ask struct {
	request *Request
	entry   *routeEntry
	longest time.Duration // how long it may wait: the max rate limit, its own, or the time to the deadline
	latest  time.Duration // when it must have been granted

	returns  bool // it was granted before, and refused by the server
	deadline bool // latest is the context's deadline, not the max rate limit
	atOnce   bool // it must not wait at all
	ordered  bool
	priority bool
	exempt   bool // from the global limit
}

// major returns the major parameter of what is asked for.
func (a *ask) major() major { return a.entry.manager.majorOf(a.request.Route) }

// asked returns when it was asked.
func (a *ask) asked() time.Duration { return a.latest - a.longest }

// tooLong returns the error for a request whose wait is forecast to be longer than it may be, or that has waited longer.
func (a *ask) tooLong(now time.Duration, b *RESTBucket, f forecast) error {
	waited := max(now-a.asked(), 0)
	if f.wait > 0 || now > a.latest {
		f.wait += waited // in all, as what it may wait
	}
	return &ratelimits.TooLongError{
		Route:    a.request.Route.Route().String(),
		Class:    f.class,
		Global:   f.global,
		Wait:     f.wait,
		Waited:   waited,
		Max:      a.longest,
		Deadline: a.deadline,
		Limit:    b.window.Limit(),
		Period:   b.window.Period(),
		Cause:    b.away(now, a),
	}
}

// waiter is an ask that has to wait, in the queue of a bucket or in one of its sub-limits.
//
//	queued    until it is granted, refused or withdrawn
//	answered  it is in no queue any more, and its caller has been told, or will be
//	withdrawn it left by itself and is in no queue any more
//
// There may be hundreds of thousands of them, so it keeps nothing that can be had from its request.
type waiter struct {
	fifo.Element[*waiter]
	ask
	bucket   atomic.Pointer[RESTBucket] // changed only under the locks of both the old and the new one
	subLimit *subLimit                  // whose only request under way it is, nil if none
	ticket   Ticket                     // its place in the queue of all processes, 0 if there is none

	// What became of it, and how its caller is told that: by the channel of capacity 1, or by a call.
	held    *held
	err     error
	ready   chan struct{}
	granted func(Lease, error)
	unwatch atomic.Pointer[func() bool] // ends the watch on the context of a call
}

// waiterPool keeps waiters for another use. Each manager has its own, so that the channels stay in the synctest bubble in
// which they were made.
type waiterPool struct{ pool sync.Pool }

func (p *waiterPool) get() *waiter {
	w, ok := p.pool.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	return w
}

// put makes the waiter available to others. Nobody else may know it any more.
func (p *waiterPool) put(w *waiter) {
	*w = waiter{ready: w.ready}
	p.pool.Put(w)
}

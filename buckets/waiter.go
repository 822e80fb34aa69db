package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// ask is one call of Acquire: what is asked for, and how long it may take.
type ask struct {
	entry   *routeEntry
	route   routes.CompiledRoute
	major   major
	fields  func() []string
	shape   uint64        // what its hidden limits are told apart by; 0: not looked at yet, as it need not wait
	arrived time.Duration // its place in the queue
	asked   time.Duration
	longest time.Duration // how long it may wait: the max rate limit, its own, or the time to the deadline
	latest  time.Duration // when it must have been granted

	// What was predicted when it began to wait, and whether the caller's functions have been called about that.
	announced  bool
	predicted  time.Duration
	waitClass  ratelimits.Class
	waitGlobal bool

	returns  bool // it was granted before, and refused by the server
	deadline bool // latest is the context's deadline, not the max rate limit
	atOnce   bool // it must not wait at all
	ordered  bool
	priority bool
	exempt   bool // from the global limit
}

// tooLong returns the error for a request that would have to wait so long.
func (a *ask) tooLong(b *RESTBucket, wait time.Duration, global bool, class ratelimits.Class) error {
	return &ratelimits.TooLongError{
		Route:    a.route.Route().String(),
		Class:    class,
		Global:   global,
		Wait:     wait,
		Max:      a.longest,
		Deadline: a.deadline,
		Limit:    b.window.Limit(),
		Period:   b.window.Period(),
	}
}

// waiter is an ask that has to wait, in the queue of a bucket or in one of its lanes.
//
//	queued    until it is granted, refused or withdrawn
//	answered  it is in no queue any more, lease or err is set, ready has been signalled
//	withdrawn it left by itself and is in no queue any more
type waiter struct {
	fifo.Element[*waiter]
	ask
	bucket atomic.Pointer[RESTBucket] // changed only under the locks of both the old and the new one
	lane   *lane                      // whose only request under way it is, nil if none
	lease  Lease
	err    error
	ready  chan struct{} // capacity 1
}

// waiterPool keeps waiters for another use. Each manager has its own, so that the channels stay in the synctest bubble in
// which they were made.
type waiterPool struct{ pool sync.Pool }

func (p *waiterPool) get(a *ask) *waiter {
	w, ok := p.pool.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.Value = w
	w.ask = *a
	w.Arrived = a.arrived
	return w
}

// put makes the waiter available to others. Nobody else may know it any more.
func (p *waiterPool) put(w *waiter) {
	*w = waiter{ready: w.ready}
	p.pool.Put(w)
}

package buckets

import (
	"sync"
	"sync/atomic"

	"github.com/ratelight/ratelight/internal/fifo"
)

// waiter is an ask that has to wait, in a queue of a bucket.
//
//	queued    until it is granted, rejected or withdrawn
//	resolved  it is in no queue any more, and its caller has been told, or will be
//	withdrawn it left by itself and is in no queue any more
//
// There may be hundreds of thousands of them, so it keeps nothing that can be had from its request.
type waiter struct {
	fifo.Element[*waiter]
	ask
	bucket atomic.Pointer[bucket] // changed only under the locks of both the old and the new one
	reason WaitsFor               // what it waits for if its queue does not tell, and in the end what it has waited for

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

// resolve tells a waiter, which is in no queue any more, what became of it.
func (b *bucket) resolve(w *waiter, l Lease, err error) {
	m := b.manager()
	m.waiting.Add(-1)
	m.progressed()
	w.held, w.err = l.held, err
	if w.granted != nil {
		m.calls.push(w)
		return
	}
	w.ready <- struct{}{}
}

package buckets

import (
	"context"
	"sync"
)

// AcquireFunc is AcquireRequest that does not block: it calls granted when the request may be sent, or is refused. So
// one goroutine can queue any number of requests.
//
// granted is called exactly once, with what AcquireRequest would return. A manager makes all these calls one after the
// other on one goroutine, with no lock held; for requests of one bucket in the order in which they were granted.
// granted may call anything, but while it runs all other calls wait, so send from another goroutine. Do not use the
// Request before granted is called.
//
// When the context ends, a request that still waits leaves the queue. Close ends all of them, and does not wait for the
// calls. If granted is nil, AcquireFunc does nothing. A panic in granted ends the program.
func (m *RESTBucketManager) AcquireFunc(ctx context.Context, r *Request, granted func(Lease, error)) {
	if granted == nil {
		return
	}
	w := &waiter{granted: granted}
	w.request = r
	lease, queued, err := m.request(ctx, r, w)
	switch {
	case queued == nil:
		w.held, w.err = lease.held, err
		m.calls.push(w)
	case ctx.Done() != nil:
		w.watch(ctx)
	}
}

// watch lets the waiter leave the queue when the context ends, until it is resolved.
func (w *waiter) watch(ctx context.Context) {
	m := w.entry.manager
	unwatch := context.AfterFunc(ctx, func() {
		if m.withdraw(w) {
			w.err = m.expired(ctx, &w.ask)
			m.calls.push(w)
		}
	})
	if !w.unwatch.CompareAndSwap(nil, &unwatch) {
		unwatch() // it has been resolved since
	}
}

// unwatched stands for the watch of a waiter that needs none any more.
var unwatched = func() bool { return true }

// calls are the callers of AcquireFunc that have to be told what became of their requests.
type calls struct {
	manager *RESTBucketManager
	mu      sync.Mutex
	waiters []*waiter
	running bool
}

// push tells a caller, after all that were pushed before. It does not block.
func (c *calls) push(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = append(c.waiters, w)
	if !c.running {
		c.running = true
		go c.run()
	}
}

// pop returns the next one to be told. If there is none, the goroutine that asks has to end.
func (c *calls) pop() (w *waiter, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiters) == 0 {
		c.waiters, c.running = nil, false
		return nil, false
	}
	w, c.waiters[0] = c.waiters[0], nil
	c.waiters = c.waiters[1:]
	return w, true
}

// run tells all of them. Should one of them end its goroutine, another one goes on.
func (c *calls) run() {
	finished := false
	defer func() {
		if !finished {
			go c.run()
		}
	}()
	for w, ok := c.pop(); ok; w, ok = c.pop() {
		c.tell(w)
	}
	finished = true
}

// tell calls what the caller asked to be called.
func (c *calls) tell(w *waiter) {
	if unwatch := w.unwatch.Swap(&unwatched); unwatch != nil {
		(*unwatch)()
	}
	lease := Lease{}
	if w.held != nil {
		lease = w.held.lease()
	}
	if w.bucket.Load() != nil {
		c.manager.endWait(w, lease, w.err)
	}
	w.granted(c.manager.deliver(w.request, lease, w.err))
}

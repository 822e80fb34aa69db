package buckets

import (
	"context"
	"errors"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Acquire waits until a request to the route may be sent, and returns the lease under which to send it at once. The
// authorization is the value of the request's Authorization header, empty if it has none.
//
// The errors are: a *ratelimits.TooLongError if the predicted wait exceeds the max rate limit or the context's deadline,
// immediately or when a later response makes it so long; a *ratelimits.QueueFullError if too many wait already; a
// *ratelimits.BudgetError if too many responses were invalid of late; the context's error when it ends; ErrNotStarted,
// ErrClosed, ErrNoContext and ErrNoRoute. With an error the lease is zero, and whoever else waits is served as if the
// request had never been.
func (m *RESTBucketManager) Acquire(ctx context.Context, route routes.CompiledRoute, authorization string) (Lease, error) {
	r := Request{Route: route, Authorization: authorization}
	if lease, ok := m.acquireFast(ctx, &r); ok {
		return lease, nil
	}
	kept := r // it may have to be kept for long
	return m.acquire(ctx, &kept)
}

// AcquireRequest is Acquire for a Request, which keeps its place in the queue if it has to be acquired again.
func (m *RESTBucketManager) AcquireRequest(ctx context.Context, r *Request) (Lease, error) {
	if lease, ok := m.acquireFast(ctx, r); ok {
		lease.held.request = r
		return lease, nil
	}
	return m.acquire(ctx, r)
}

func (m *RESTBucketManager) acquire(ctx context.Context, r *Request) (Lease, error) {
	lease, w, err := m.request(ctx, r, nil)
	if w != nil {
		lease, err = m.await(ctx, w)
	}
	return m.deliver(r, lease, err)
}

// request grants what is asked for, or lets it wait as a waiter of its own: async if that is not nil.
func (m *RESTBucketManager) request(ctx context.Context, r *Request, async *waiter) (Lease, *waiter, error) {
	if err := checked(ctx, r); err != nil {
		return Lease{}, nil, err
	}
	if err := m.alive(); err != nil {
		return Lease{}, nil, err
	}
	a := m.ask(ctx, r)
	announced := !m.settings.listens()
	for {
		lease, w, f, err := m.grantOrQueue(&a, announced, async)
		if w != nil || err != nil || lease != (Lease{}) {
			return lease, w, err
		}
		// It has to wait, and functions of the caller have to be called first, under no lock.
		if r.subLimitKey == 0 {
			r.subLimitKey = subLimitKeyOf(m.seed, r.Route, r.Fields)
		} else {
			announced = true
			m.settings.waiting(r, f)
		}
		if err := ctx.Err(); err != nil { // that may have taken its time
			return Lease{}, nil, err
		}
	}
}

// deliver hands over what became of a request. Its place is over, unless it is given back at the end of the lease.
func (m *RESTBucketManager) deliver(r *Request, lease Lease, err error) (Lease, error) {
	if r != nil { // else there is an error
		r.subLimitKey, r.arrived = 0, 0
	}
	if err != nil {
		m.counters.refuse(err)
		return Lease{}, err
	}
	lease.held.request = r
	m.chargeProvisionally(lease.held)
	return lease, nil
}

// grantOrQueue grants the ask or lets it wait. It does neither, without an error, if it has to wait and its key is not known,
// or the wait, which is returned, is not announced: functions of the caller are called for that, which must happen
// neither under a lock nor when something has been taken already.
func (m *RESTBucketManager) grantOrQueue(a *ask, announced bool, async *waiter) (Lease, *waiter, forecast, error) {
	b := m.enter(a)
	defer b.unlock()
	if m.closed() { // since we looked
		return Lease{}, nil, forecast{}, ErrClosed
	}
	now := b.now()
	if lease, ok, err := b.tryGrant(now, a); ok || err != nil {
		return lease, nil, forecast{}, err
	}
	if a.request.subLimitKey == 0 {
		return Lease{}, nil, forecast{}, nil
	}
	arrived := b.place(now, a)
	f, err := m.refuse(now, b, a, arrived)
	if err != nil || !announced {
		return Lease{}, nil, f, err
	}
	w := async
	if w == nil {
		w = m.waiters.get()
	}
	return Lease{}, b.enqueue(now, a, arrived, w), f, nil
}

func (m *RESTBucketManager) alive() error {
	switch m.state.Load() {
	case running:
		return nil
	case ended:
		return ErrClosed
	}
	return ErrNotStarted
}

// longestWait is what any longer wait is cut to. It leaves room to add.
const longestWait = 100 * 365 * 24 * time.Hour

// ask works out what is asked for.
func (m *RESTBucketManager) ask(ctx context.Context, r *Request) ask {
	now := m.now()
	entry := m.entry(r)
	a := ask{request: r, entry: entry, returns: r.arrived != 0, ordered: m.settings.ordered, exempt: entry.exempt}
	tuning := tuningOf(ctx)
	a.ordered, a.priority = a.ordered || tuning.ordered, tuning.priority
	maxWait := m.settings.maxRateLimit
	if tuning.hasMaxWait {
		maxWait = tuning.maxWait
	}
	maxWait = min(maxWait, longestWait)
	if deadline, ok := ctx.Deadline(); ok {
		if left := max(deadline.Sub(m.settings.clock.Now()), 0); left < maxWait {
			maxWait, a.deadline = left, true
		}
	}
	a.longest, a.latest, a.atOnce = maxWait, now+maxWait, maxWait == 0
	return a
}

// enter returns the bucket in which the ask has to wait, locked.
func (m *RESTBucketManager) enter(a *ask) *RESTBucket {
	major := a.major()
	for {
		f := a.entry.groupOf(major)
		b, found := m.findBucket(f, major)
		if !found {
			m.chargeNew(b)
		}
		b.lock()
		if a.entry.evicted.Load() { // by the collector, or the manager was closed and started again
			b.unlock()
			a.entry = m.entry(a.request)
			continue
		}
		if !b.evicted.Load() && !a.entry.changing.Load() && a.entry.groupOf(major) == f {
			return b
		}
		b.unlock()
		a.entry.waitForMove()
	}
}

// refuse returns how long the ask will have to wait at its place in b, which is locked, and the error if it must not.
func (m *RESTBucketManager) refuse(now time.Duration, b *RESTBucket, a *ask, arrived time.Duration) (forecast, error) {
	if err := b.outage(); err != nil {
		return forecast{}, err
	}
	if !a.exempt {
		if err := b.group.authentication.global.outage(now); err != nil {
			return forecast{}, err
		}
	}
	ahead := 0 // of one that comes back to its place
	if !a.returns {
		if err := m.full(a, b.waiting()); err != nil {
			return forecast{}, err
		}
		ahead = b.ahead(a, arrived)
	}
	return b.refusal(now, a, ahead, b.canTell(now, a, nil))
}

// full returns an error if as many wait as may.
func (m *RESTBucketManager) full(a *ask, waiting int) error {
	if bound := m.settings.maxWaiting; bound > 0 && waiting >= bound {
		return &ratelimits.QueueFullError{Route: a.request.Route.Route().String(), Waiting: waiting, Max: bound}
	}
	if bound := m.settings.maxTotal; bound > 0 {
		if total := int(m.waiting.Load()); total >= bound {
			return &ratelimits.QueueFullError{Route: a.request.Route.Route().String(), Waiting: total, Max: bound, Total: true}
		}
	}
	return nil
}

// await waits for a waiter's answer or the end of the context. If both come together, a lease is given back.
func (m *RESTBucketManager) await(ctx context.Context, w *waiter) (Lease, error) {
	defer m.waiters.put(w)
	select {
	case <-w.ready:
	case <-ctx.Done():
		if m.withdraw(w) {
			return Lease{}, m.expired(ctx, &w.ask)
		}
		<-w.ready
		if w.err == nil {
			w.held.lease().Return()
			return Lease{}, ctx.Err()
		}
	}
	if w.err != nil {
		return Lease{}, w.err
	}
	m.counters.waited(m.now() - w.asked())
	return w.held.lease(), nil
}

// expired returns the error for a request whose context ended while it waited. If nobody could be asked until its deadline, it says so.
func (m *RESTBucketManager) expired(ctx context.Context, a *ask) error {
	err := ctx.Err()
	if !a.deadline || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if cause := m.outage(); cause != nil {
		return &ratelimits.TooLongError{Route: a.request.Route.Route().String(), Max: a.longest, Deadline: true, Cause: cause}
	}
	return err
}

// withdraw takes a waiter out of wherever it waits and lets the others move up. It reports false if the waiter has been
// answered already.
func (m *RESTBucketManager) withdraw(w *waiter) bool {
	for {
		b := w.bucket.Load()
		b.lock()
		if w.bucket.Load() != b {
			b.unlock()
			continue
		}
		defer b.unlock()
		if !b.remove(w) {
			return false
		}
		m.waiting.Add(-1)
		b.dispatchFree(b.now())
		return true
	}
}

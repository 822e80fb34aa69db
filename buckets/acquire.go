package buckets

import (
	"context"
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
	return m.AcquireRequest(ctx, &r)
}

// AcquireRequest is Acquire for a Request, which keeps its place in the queue if it has to be acquired again.
func (m *RESTBucketManager) AcquireRequest(ctx context.Context, r *Request) (Lease, error) {
	if err := checked(ctx, r); err != nil {
		m.counters.refuse(err)
		return Lease{}, err
	}
	if err := m.alive(); err != nil {
		return Lease{}, err
	}
	a := m.ask(ctx, r)
	lease, w, err := m.grantOrQueue(&a)
	for err == nil && w == nil && lease == (Lease{}) { // it has to wait
		if a.shape == 0 {
			a.shape = shapeOf(m.seed, r.Route, r.Fields)
		} else {
			a.announced = true
			m.settings.waiting(&a)
		}
		if err = ctx.Err(); err == nil { // that may have taken its time
			lease, w, err = m.grantOrQueue(&a)
		}
	}
	if w != nil {
		lease, err = m.await(ctx, w)
	}
	if err != nil {
		m.counters.refuse(err)
		return Lease{}, err
	}
	r.shape, r.arrived = a.shape, a.arrived
	m.castShadow(lease.held)
	return lease, nil
}

// grantOrQueue grants the ask or lets it wait. It does neither, without an error, if it has to wait and its shape is not known,
// or the wait is not announced: functions of the caller are called for that, which must happen neither under a lock nor
// when something has been taken already.
func (m *RESTBucketManager) grantOrQueue(a *ask) (Lease, *waiter, error) {
	b := m.enter(a)
	defer b.mu.Unlock()
	if m.closed() { // since we looked
		return Lease{}, nil, ErrClosed
	}
	now := m.now()
	if lease, ok, err := b.tryGrant(now, a); ok || err != nil {
		return lease, nil, err
	}
	if a.shape == 0 {
		return Lease{}, nil, nil
	}
	placed := *a // it gets its place only when it takes it
	b.place(now, &placed)
	err := m.refuse(now, b, &placed)
	switch {
	case err != nil:
		return Lease{}, nil, err
	case !a.announced:
		a.predicted, a.waitGlobal, a.waitClass = placed.predicted, placed.waitGlobal, placed.waitClass
		return Lease{}, nil, nil
	}
	a.arrived = placed.arrived
	return Lease{}, b.enqueue(now, a), nil
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
	route := r.Route.Route()
	a := ask{
		entry: m.entry(route, r.Authorization), route: r.Route, major: majorOf(m.seed, r.Route), fields: r.Fields, shape: r.shape,
		arrived: r.arrived, returns: r.arrived != 0,
		asked: now, ordered: m.settings.ordered, exempt: route.GlobalExempt(),
	}
	a.announced = !m.settings.listens()
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
	for {
		f := a.entry.family.Load()
		b, found := m.findBucket(f, a.major)
		if !found {
			m.catchShadows(b)
		}
		b.mu.Lock()
		if a.entry.evicted.Load() { // by the collector, or the manager was closed and started again
			b.mu.Unlock()
			a.entry = m.entryOf(entryKey{a.entry.route, a.entry.authentication.id})
			continue
		}
		if !b.evicted && !a.entry.changing.Load() && a.entry.family.Load() == f {
			if f.place == erratic {
				a.ordered = true
			}
			return b
		}
		b.mu.Unlock()
		a.entry.waitForMove()
	}
}

// refuse returns why the ask must not wait in b, which is locked, nil if it may.
func (m *RESTBucketManager) refuse(now time.Duration, b *RESTBucket, a *ask) error {
	ahead := b.waiting()
	if a.returns {
		ahead = 0 // it comes back to its place
	} else if err := m.full(a, ahead); err != nil {
		return err
	}
	if a.priority {
		ahead = b.ahead(a)
	}
	return b.refusal(now, a, ahead)
}

// full returns an error if as many wait as may.
func (m *RESTBucketManager) full(a *ask, waiting int) error {
	if bound := m.settings.maxWaiting; bound > 0 && waiting >= bound {
		return &ratelimits.QueueFullError{Route: a.route.Route().String(), Waiting: waiting, Max: bound}
	}
	if bound := m.settings.maxTotal; bound > 0 {
		if total := int(m.waiting.Load()); total >= bound {
			return &ratelimits.QueueFullError{Route: a.route.Route().String(), Waiting: total, Max: bound, Total: true}
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
			return Lease{}, ctx.Err()
		}
		<-w.ready
		if w.err == nil {
			w.lease.Return()
			return Lease{}, ctx.Err()
		}
	}
	if w.err != nil {
		return Lease{}, w.err
	}
	m.counters.waited(m.now() - w.asked)
	return w.lease, nil
}

// withdraw takes a waiter out of wherever it waits and lets the others move up. It reports false if the waiter has been
// answered already.
func (m *RESTBucketManager) withdraw(w *waiter) bool {
	for {
		b := w.bucket.Load()
		b.mu.Lock()
		if w.bucket.Load() != b {
			b.mu.Unlock()
			continue
		}
		defer b.mu.Unlock()
		if !b.remove(w) {
			return false
		}
		m.waiting.Add(-1)
		b.dispatchFree(m.now())
		return true
	}
}

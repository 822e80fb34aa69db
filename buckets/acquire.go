package buckets

import (
	"context"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// Acquire waits until a request to the route may be sent, and returns its lease. Send the request at once. The
// authorization is the value of the request's Authorization header, empty if it has none.
//
// The errors are: a *ratelimits.TooLongError if the predicted wait exceeds the max rate limit or the context's
// deadline, immediately or when a later response makes it too long; a *ratelimits.QueueFullError if too many wait
// already; a *ratelimits.BudgetError if too many recent responses were invalid; the context's error when it ends;
// ErrNotStarted, or an error that wraps ErrOptions if Start has refused an option; ErrClosed, ErrNoContext, and one for the zero route; and
// one that names the declared limit if a function of PerKey has panicked. With an error the lease is zero, and other requests are not affected.
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
		if r.waited != 0 {
			r.waited = 0
		}
		return lease, nil
	}
	return m.acquire(ctx, r)
}

// noWait is the context of requests that do not wait.
var noWait = ContextWithMaxWait(context.Background(), 0)

// TryAcquire is Acquire that never waits: it returns a lease if the request may be sent now, and otherwise at once a
// *ratelimits.TooLongError with the predicted wait, 0 if none can be predicted, or another of the errors of Acquire.
func (m *RESTBucketManager) TryAcquire(route routes.CompiledRoute, authorization string) (Lease, error) {
	return m.Acquire(noWait, route, authorization)
}

// checked returns the error for a call of AcquireRequest that cannot be granted by anybody.
func checked(ctx context.Context, r *Request) error {
	switch {
	case ctx == nil:
		return ErrNoContext
	case r == nil || r.Route.IsZero():
		return errNoRoute
	}
	return ctx.Err()
}

// acquireFast grants a request of a route whose hash is known, if its bucket has room and nobody waits there, as is so for most requests.
// Then it does exactly what request does, with fewer looks and copies. Otherwise it reports false and has changed nothing, but for a
// bucket that it may have made, as request would have to.
func (m *RESTBucketManager) acquireFast(ctx context.Context, r *Request) (Lease, bool) {
	if !m.ordinary(ctx, r) {
		return Lease{}, false
	}
	entry, own := m.entriesOf(r)
	major := m.majorOf(&r.Route)
	group := entry.groupOf(major)
	if !group.kind.ordinary() {
		return Lease{}, false
	}
	b, found := m.findBucket(group, major)
	if !found {
		group.noteToken(r.Route)
		m.chargeNew(b)
	}
	return m.acquireFastFrom(ctx, r, &destination{entry, own, b, major})
}

// ordinary reports that nothing is asked for but permission.
func (m *RESTBucketManager) ordinary(ctx context.Context, r *Request) bool {
	if checked(ctx, r) != nil || m.closed() || m.settings.ordered {
		return false
	}
	t := tuningOf(ctx)
	return !t.ordered && !t.priority
}

// acquireFastFrom is acquireFast for a request that belongs into a bucket, as far as is known.
func (m *RESTBucketManager) acquireFastFrom(ctx context.Context, r *Request, to *destination) (Lease, bool) {
	b, entry := to.bucket, to.entry
	b.mu.Lock()
	now := b.now()
	if b.queues != nil || b.reading > 0 || entry.rules != nil ||
		!b.isFor(entry, to.major) || to.own.evicted.Load() || b.undiscovered(entry) ||
		m.admits(r) != nil || !entry.authentication.edge.open.Load() {
		b.mu.Unlock()
		return Lease{}, false
	}
	c := b.server().budget.counters.shardOf(b)
	h := b.tryTake(now, to, c)
	if h == nil {
		b.mu.Unlock()
		return Lease{}, false
	}
	h.ctx, h.route, h.major, h.fields = ctx, r.Route, to.major, r.Fields
	if r.arrived == 0 {
		h.arrived = b.arrive(now)
	} else {
		h.arrived, r.arrived = r.arrived, 0
	}
	if r.subLimitKey != 0 { // nothing is written to a Request without a place, which others may use
		h.subLimitKey, r.subLimitKey = r.subLimitKey, 0
	}
	b.addInFlight(h)
	c.countGrant(h)
	b.mu.Unlock()
	return h.lease(), true
}

// isFor reports that the bucket, which is locked, is where the route's requests with that major parameter belong.
func (b *bucket) isFor(e *routeEntry, m major) bool {
	return !b.evicted.Load() && !e.evicted.Load() && !e.changing.Load() && e.groupOf(m) == b.group
}

// tryTake takes all that a request needs, or returns nil.
func (b *bucket) tryTake(now time.Duration, to *destination, c *counterShard) *held {
	h := leases.Get().(*held)
	if !b.take(now, &h.permit) {
		leases.Put(h)
		return nil
	}
	auth := to.own.authentication
	ok := auth.server.budget.hasPlenty(c)
	if ok {
		if to.entry.exempt {
			h.global = auth.global.force(now)
		} else {
			h.global, ok = auth.global.take(now)
		}
	}
	if !ok {
		b.giveBack(now, &h.permit)
		h.permit = permit{}
		leases.Put(h)
		return nil
	}
	h.entry, h.credential = to.entry, auth
	return h
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
	if r != nil {
		r.waited = 0
	}
	if err := checked(ctx, r); err != nil {
		return Lease{}, nil, err
	}
	if err := m.admits(r); err != nil {
		return Lease{}, nil, err
	}
	a, err := m.ask(ctx, r)
	if err != nil {
		return Lease{}, nil, err
	}
	announced := !m.listens(ctx)
	for {
		lease, w, f, err := m.grantOrQueue(&a, announced, async)
		if w != nil || err != nil || lease != (Lease{}) {
			return lease, w, err
		}
		// It has to wait, and functions of the caller have to be called first, under no lock.
		if r.subLimitKey == 0 {
			r.subLimitKey = m.subLimitKeyOf(r.Route, r.Fields)
		} else {
			announced = true
			m.tellWaiting(ctx, r, f)
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
	defer b.mu.Unlock()
	if err := m.admits(a.request); err != nil { // since we looked
		return Lease{}, nil, forecast{}, err
	}
	now := b.now()
	if lease, ok, err := b.tryGrant(now, a); ok || err != nil {
		return lease, nil, forecast{}, err
	}
	if a.request.subLimitKey == 0 {
		return Lease{}, nil, forecast{}, nil
	}
	arrived := b.place(now, a)
	f, err := m.judge(now, b, a, arrived)
	if err != nil {
		return Lease{}, nil, f, err
	}
	reason := b.reason(now, a, f)
	if !announced {
		if reason == WaitsForProbe { // what is forecast of other limits comes after it
			f = forecast{}
		}
		return Lease{}, nil, f, nil
	}
	w := async
	if w == nil {
		w = m.waiters.get()
	}
	w.reason = reason
	return Lease{}, b.enqueue(now, a, arrived, w), f, nil
}

// ask is one call of Acquire: what is asked for, and how long it may take.
type ask struct {
	request *Request
	ctx     context.Context // for hooks and logs
	entry   *routeEntry     // where the limits of its route are
	own     *routeEntry     // of the same route under its own credential
	longest time.Duration   // how long it may wait: the max rate limit, its own, or the time to the deadline
	latest  time.Duration   // when it must have been granted

	group     string    // its turn it is waited for
	limits    *limitSet // declared limits that apply
	weight    int32     // of the group
	comesBack bool      // it was granted before, and refused by the server
	deadline  bool      // latest is the context's deadline, not the max rate limit
	atOnce    bool      // it must not wait at all
	ordered   bool
	priority  bool
	exempt    bool // from the global limit
}

// major returns the major parameter of what is asked for.
func (a *ask) major() major { return a.entry.manager.majorOf(&a.request.Route) }

// global returns the global limit of its credential.
func (a *ask) global() *gate { return a.own.authentication.global }

// asked returns when it was asked.
func (a *ask) asked() time.Duration { return a.latest - a.longest }

// longestWait is what any longer wait is cut to. It leaves room to add.
const longestWait = 100 * 365 * 24 * time.Hour

// ask works out what is asked for. It calls functions of the caller's.
func (m *RESTBucketManager) ask(ctx context.Context, r *Request) (a ask, err error) {
	a = m.askBut(ctx, r)
	a.limits, err = m.limitsOf(ctx, a.own, r)
	return a, err
}

// askBut is ask, but for the declared limits that apply.
func (m *RESTBucketManager) askBut(ctx context.Context, r *Request) ask {
	now := m.now()
	entry, own := m.entriesOf(r)
	a := ask{
		request: r, ctx: ctx, entry: entry, own: own,
		group: r.groupIn(ctx), comesBack: r.arrived != 0, ordered: m.settings.ordered, exempt: entry.exempt,
	}
	a.weight = m.weightOf(a.group)
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
func (m *RESTBucketManager) enter(a *ask) *bucket {
	major := a.major()
	for {
		group := a.entry.groupOf(major)
		group.noteToken(a.request.Route)
		b, found := m.findBucket(group, group.keyIn(&a.request.Route, major))
		if !found {
			m.chargeNew(b)
		}
		b.mu.Lock()
		if a.entry.evicted.Load() || a.own.evicted.Load() { // by the collector, or the manager was closed and started again
			b.mu.Unlock()
			a.entry, a.own = m.entriesOf(a.request)
			continue
		}
		if !b.evicted.Load() && !a.entry.changing.Load() && a.entry.groupOf(major) == group {
			return b
		}
		b.mu.Unlock()
		a.entry.waitForMove()
	}
}

// await waits for a waiter's answer or the end of the context. If both come together, a lease is given back.
func (m *RESTBucketManager) await(ctx context.Context, w *waiter) (Lease, error) {
	defer m.waiters.put(w)
	lease, err := m.awaitAnswer(ctx, w)
	m.endWait(w, lease, err)
	return lease, err
}

func (m *RESTBucketManager) awaitAnswer(ctx context.Context, w *waiter) (Lease, error) {
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
	return w.held.lease(), nil
}

// withdraw takes a waiter out of wherever it waits and lets the others move up. It reports false if the waiter has been
// resolved already.
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
		m.progressed()
		b.dispatchNow(b.now())
		return true
	}
}

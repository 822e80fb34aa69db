package buckets

import (
	"net/http"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// unsaidHold is how long something is held that was refused without a word on how long.
const unsaidHold = time.Second

// precision is that of the server's times: they are rounded to milliseconds.
const precision = time.Millisecond

func saidHold(r *ratelimits.Response) time.Duration {
	if r.HasRetryAfter {
		return min(r.RetryAfter, ratelimits.LongestTrust) + precision
	}
	return unsaidHold
}

// settle ends a lease: it gives back what the request took, applies what its response says, and lets go whom that allows to
// go. The gates come first, so that nobody leaves whom a hold of theirs stops.
func (m *RESTBucketManager) settle(h *held, o outcome) {
	now := m.now()
	m.counters.settle(&o)
	if o.response.Class == ratelimits.ClassSubLimit {
		o.shape = h.shapeOf(m.seed) // before any lock is held, as it calls the caller's function
	}
	passed := 0.0
	if o.sent {
		passed = m.budget.report(now, o.response.Invalid())
		o.held = m.edge.report(now, h.edge, o.response)
	} else {
		m.budget.giveBack()
		m.edge.giveBack(now, h.edge)
	}
	if o.response.Class == ratelimits.ClassGlobal {
		o.held = h.entry.authentication.refuse(now, saidHold(&o.response))
	}
	switch {
	case h.slot == ratelimits.Slot{}:
	case o.sent:
		h.entry.authentication.report(now, h.slot, &o.response)
	default:
		h.entry.authentication.giveBack(now, h.slot)
	}
	b := h.lock()
	now = m.now()
	o.clashes = o.sent && b.clashes(h.entry, &o.response)
	if o.sent && b.misplaced(now, h, &o) {
		b.mu.Unlock()
		m.relocate(h, &o)
	} else {
		b.apply(now, h, &o)
		b.dispatchFree(now)
		b.mu.Unlock()
	}
	if o.response.Class == ratelimits.ClassShared {
		m.shareHold(h, &o.response)
	}
	for _, s := range h.shadows { // it has departed, so nobody changes them any more
		s.end(o)
	}
	if o.held > 0 {
		m.settings.held(Held{Class: o.response.Class, Route: h.route.Route().String(), Wait: o.held})
	}
	m.settings.budgetUsed(m.budget, now, passed)
}

// shareHold holds back what other credentials want of a resource that is used up for everybody.
func (m *RESTBucketManager) shareHold(h *held, r *ratelimits.Response) {
	b := h.bucket.Load()
	m.moves.Lock()
	defer m.moves.Unlock()
	for _, a := range m.authentications.All() {
		f := a.families[b.family.familyKey]
		if f == nil || f == b.family || f.place == unknown {
			continue
		}
		other := m.lockedBucket(f, b.major)
		now := m.now()
		other.window.Hold(now, saidHold(r))
		other.refuseLate(now)
		other.mu.Unlock()
	}
}

// misplaced reports that a response shows that its request does not belong into this bucket.
func (b *RESTBucket) misplaced(now time.Duration, h *held, o *outcome) bool {
	return !b.evicted && (h.entry.belongsElsewhere(now, b.family, &o.response) || o.clashes && b.family.place == named)
}

// lock locks the bucket in which the lease is in flight and returns it.
func (h *held) lock() *RESTBucket {
	for {
		b := h.bucket.Load()
		b.mu.Lock()
		if h.bucket.Load() == b {
			return b
		}
		b.mu.Unlock()
	}
}

// apply takes a lease out of those in flight, with its outcome.
func (b *RESTBucket) apply(now time.Duration, h *held, o *outcome) {
	b.depart(h)
	if !o.sent {
		b.window.Return(now, h.permit)
		return
	}
	r := &o.response
	if h.lane != nil && r.Class == ratelimits.ClassOK && r.Status < http.StatusInternalServerError && r.Status > 0 {
		h.lane.refusals.Accepted()
	}
	limit, free := b.window.Limit(), b.window.HoldWait(now) == 0
	b.window.Report(now, h.permit, *r)
	switch {
	case r.Class == ratelimits.ClassSubLimit:
		o.held = b.refuseLane(now, saidHold(r), o.shape)
	case r.Class == ratelimits.ClassGlobal && h.route.Route().GlobalExempt():
		b.window.HoldRefused(now, saidHold(r)) // no gate holds such a route, and it must not be asked again and again
	case b.family.place == erratic && r.Limited && r.Remaining == 0:
		b.window.Hold(now, r.ResetAfter) // the next one may be counted by the limit that is used up
	case b.family.place == nameless && headless(r):
		b.window.Unlimit()
	}
	if free && r.Class != ratelimits.ClassOK {
		o.held = max(o.held, b.window.HoldWait(now))
	}
	if r.Class != ratelimits.ClassOK || b.window.Limit() != limit {
		b.refuseLate(now) // what was predicted has changed
	}
	if r.Status == 0 {
		b.refuseOverdue(now) // nobody can predict when somebody answers
	}
}

// depart takes a lease out of those in flight, without a word on what became of its request.
func (b *RESTBucket) depart(h *held) {
	b.land(h)
	if h.ordered {
		b.queue.ordered--
	}
	if h.lane != nil {
		h.lane.busy = false
	}
}

// relocate ends a lease whose response shows that its request belongs elsewhere: the route's hash was learnt, or it changed.
func (m *RESTBucketManager) relocate(h *held, o *outcome) {
	m.moves.Lock()
	defer m.moves.Unlock()
	b := h.lock()
	now := m.now()
	if !b.misplaced(now, h, o) {
		b.apply(now, h, o)
		b.dispatchFree(now)
		b.mu.Unlock()
		return
	}
	target, all := h.entry.learn(now, b.family, &o.response)
	// It is in flight in both buckets until everything else has moved, so that neither lets anybody go before.
	there := m.lockedBucket(target, h.major)
	permit := h.permit
	b.depart(h)
	h.lane, h.ordered = nil, false
	h.permit = there.window.Adopt(now, permit.Sent())
	there.launch(h)
	there.mu.Unlock()
	b.mu.Unlock()

	var touched []*RESTBucket
	if all {
		touched = m.move(h.entry, b, target)
		m.castShadowsOn(there)
	}
	b.mu.Lock()
	b.window.Return(now, permit) // it was not counted here
	b.dispatchFree(m.now())
	b.mu.Unlock()
	there.mu.Lock()
	there.apply(m.now(), h, o)
	there.dispatchFree(m.now())
	there.mu.Unlock()
	for _, b := range touched {
		b.mu.Lock()
		if b.queue != nil {
			b.queue.detours(m.now())
		}
		b.refuseLate(m.now())
		b.dispatchFree(m.now())
		b.mu.Unlock()
	}
}

// move lets all requests of a route, waiting or in flight, move from the family of b to another one, each to the bucket of
// its own major parameter. Those who wait keep their order; new ones of the route wait for the move to end. It returns the
// buckets that have to be dispatched.
func (m *RESTBucketManager) move(e *routeEntry, b *RESTBucket, to *family) []*RESTBucket {
	e.moving.Lock()
	defer e.moving.Unlock()
	e.changing.Store(true)
	defer e.changing.Store(false)
	touched := make(map[*RESTBucket]struct{})
	for _, source := range m.bucketsOf(b) {
		source.mu.Lock()
		with := func(major major, f func(to *RESTBucket)) {
			target := m.lockedBucket(to, major)
			f(target)
			target.mu.Unlock()
			touched[target] = struct{}{}
		}
		if source.family.place != unknown && source.holds(m.now()) {
			with(source.major, source.handOverHolds)
		}
		source.empty(e, with)
		source.dispatchFree(m.now())
		source.mu.Unlock()
	}
	e.family.Store(to)
	result := make([]*RESTBucket, 0, len(touched))
	for b := range touched {
		result = append(result, b)
	}
	return result
}

// bucketsOf returns all buckets of b's family.
func (m *RESTBucketManager) bucketsOf(b *RESTBucket) []*RESTBucket {
	if b.family.place == unknown {
		return []*RESTBucket{b}
	}
	var all []*RESTBucket
	for key, other := range m.buckets.All() {
		if key.family == b.family {
			all = append(all, other)
		}
	}
	return all
}

// empty moves all that belongs to a route out of b, which is locked. transfer calls its function with the bucket of the
// major parameter in which they belong from now on, locked.
func (b *RESTBucket) empty(e *routeEntry, transfer func(major, func(to *RESTBucket))) {
	now := b.manager().now()
	for h := b.flying; h != nil; {
		next := h.next
		if h.entry == e {
			transfer(h.major, func(to *RESTBucket) { b.handOver(now, h, to) })
		}
		h = next
	}
	if b.queue == nil {
		return
	}
	for _, lane := range b.queue.lanes {
		for element := lane.waiting.Head(); element != nil; {
			w := element.Value
			element = element.Next()
			if w.entry == e {
				transfer(w.major, func(to *RESTBucket) {
					lane.waiting.Remove(&w.Element)
					to.takeOver(w)
				})
			}
		}
	}
	for element := b.queue.waiting.Head(); element != nil; {
		w := element.Value
		element = element.Next()
		if w.entry == e {
			transfer(w.major, func(to *RESTBucket) {
				b.remove(w)
				to.takeOver(w)
			})
		}
	}
}

// holds reports whether something is held back that still is when a route moves to another bucket.
func (b *RESTBucket) holds(now time.Duration) bool {
	return b.window.HoldWait(now) > 0 || b.queue != nil && len(b.queue.lanes) > 0
}

// handOverHolds holds in another bucket what is held here, by limits that are not those of the bucket: the resource's, those
// of bodies, and, where no hash is known, whatever it is.
func (b *RESTBucket) handOverHolds(to *RESTBucket) {
	now := b.manager().now()
	if !b.family.named() || b.window.HoldClass(now) == ratelimits.ClassShared {
		to.window.Hold(now, b.window.HoldWait(now))
	}
	if b.queue != nil {
		for shape, lane := range b.queue.lanes {
			to.open().openLane(shape).hold.Extend(now, lane.hold.Wait(now))
		}
	}
}

// handOver moves a lease in flight from b to another bucket. It may be counted in either, so it stays charged here, too.
func (b *RESTBucket) handOver(now time.Duration, h *held, to *RESTBucket) {
	b.depart(h)
	b.window.Lost(now, h.permit)
	h.permit = to.window.Adopt(now, h.permit.Sent())
	h.uncast(now, to)
	h.lane = nil
	if h.ordered {
		to.open().ordered++
	}
	to.launch(h)
}

// takeOver lets somebody wait here who waited in another bucket.
func (b *RESTBucket) takeOver(w *waiter) {
	w.lane = nil
	w.ordered = w.ordered || b.family.place == erratic
	w.bucket.Store(b)
	b.open().waiting.Insert(&w.Element)
}

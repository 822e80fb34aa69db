package buckets

import (
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// relocate ends a lease whose response shows that its request belongs elsewhere: the route's hash was learnt, or it changed.
func (m *RESTBucketManager) relocate(h *held, o *outcome) {
	m.moves.Lock()
	defer m.moves.Unlock()
	b := h.lock()
	now := b.now()
	if !b.misplaced(now, h, o) {
		b.apply(now, h, o)
		b.dispatchFree(now)
		b.unlock()
		return
	}
	target, scope := h.entry.learn(now, b, h, &o.response)
	// It is in flight in both buckets until everything else has moved, so that neither lets anybody go before.
	there := m.lockedBucket(target, h.major)
	permit, ticket := h.permit, h.ticket
	b.depart(h)
	h.lane, h.ordered, h.ticket = nil, false, 0
	h.permit = there.window.AdoptFrom(there.now(), &b.window, permit)
	there.partner.adopt(there.now(), h)
	there.launch(h)
	h.order = 0
	there.unlock()
	b.unlock()

	touched := m.move(h.entry, b, target, scope)
	if scope >= majorMoves {
		m.castShadowsOn(there)
	}
	b.lock()
	now = b.now()
	if scope == eitherCounts {
		b.window.Lost(now, permit)
		b.partner.lose(now, ticket)
	} else {
		b.window.Return(now, permit)
		b.partner.drop(now, ticket)
	}
	b.scout.found(now, target.hash)
	b.dispatchFree(now)
	b.unlock()
	there.lock()
	there.apply(there.now(), h, o)
	there.dispatchFree(there.now())
	if scope < majorMoves && o.response.Class != ratelimits.ClassOK { // the request will come back to where it was
		if home := h.entry.familyOf(h.major); home != target {
			back := m.lockedBucket(home, h.major)
			there.handOverHolds(back, false)
			back.unlock()
			touched = append(touched, back)
		}
	}
	there.unlock()
	m.tidy(touched)
}

// tidy lets those leave who can, and refuses those who cannot wait, in buckets to which requests have moved.
func (m *RESTBucketManager) tidy(touched []*RESTBucket) {
	for _, b := range touched {
		b.lock()
		if b.queue != nil {
			b.queue.detours(b.now())
		}
		b.dispatchFree(b.now())
		b.refuseLate(b.now())
		b.unlock()
	}
}

// move lets requests of a route, waiting or in flight, move to another family: those in b, or those in all buckets of its family, each
// to the bucket of its own major parameter. Those who wait keep their order; new ones of the route wait for the move to end. It
// returns the buckets that have to be dispatched.
func (m *RESTBucketManager) move(e *routeEntry, b *RESTBucket, to *family, scope scope) []*RESTBucket {
	if scope < majorMoves {
		return nil
	}
	e.moving.Lock()
	defer e.moving.Unlock()
	e.changing.Store(true)
	defer e.changing.Store(false)
	touched := make(map[*RESTBucket]struct{})
	sources := []*RESTBucket{b}
	if scope == routeMoves {
		sources = e.bucketsOf(b, to)
	}
	for _, source := range sources {
		if source.family == to { // some are where they belong
			continue
		}
		source.lock()
		with := func(major major, f func(to *RESTBucket)) {
			target := m.lockedBucket(to, major)
			f(target)
			target.unlock()
			touched[target] = struct{}{}
		}
		if source.family.place != unknown && source.remembers(source.now()) {
			with(source.major, func(to *RESTBucket) { source.handOverKnowledge(to, source == b) })
		}
		source.empty(e, with)
		source.dispatchFree(source.now())
		source.unlock()
	}
	if scope == majorMoves {
		e.settleMajorIn(b.major, to)
	} else {
		e.settleIn(to, b.family)
	}
	result := slices.Collect(maps.Keys(touched))
	for _, b := range result {
		m.castShadowsOn(b)
	}
	return result
}

// bucketsOf returns all buckets whose requests of a route move with those of b to another family: those of its family, and of major
// parameters that live elsewhere unless they stay there.
func (e *routeEntry) bucketsOf(b *RESTBucket, to *family) []*RESTBucket {
	all := []*RESTBucket{b}
	if b.family.place == unknown {
		return all
	}
	families := map[*family]struct{}{b.family: {}}
	if to.place != named {
		families[e.family.Load()] = struct{}{}
		if homes := e.homes.Load(); homes != nil {
			for _, f := range homes.All() {
				families[f] = struct{}{}
			}
		}
	}
	for f := range families {
		for _, other := range f.members() {
			if other != b && e.familyOf(other.major) == f {
				all = append(all, other)
			}
		}
	}
	return all
}

// empty moves all that belongs to a route out of b, which is locked. transfer calls its function with the bucket of the
// major parameter in which they belong from now on, locked.
func (b *RESTBucket) empty(e *routeEntry, transfer func(major, func(to *RESTBucket))) {
	for h := b.flying; h != nil; {
		next := h.next
		if h.entry == e {
			transfer(h.major, func(to *RESTBucket) { b.handOver(h, to) })
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
				transfer(w.major(), func(to *RESTBucket) {
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
			transfer(w.major(), func(to *RESTBucket) {
				b.remove(w)
				to.takeOver(w)
			})
		}
	}
}

// remembers reports whether something is known here that still counts when a route moves to another bucket.
func (b *RESTBucket) remembers(now time.Duration) bool {
	return b.window.HoldWait(now) > 0 || b.usedUp(now) > 0 || b.queue != nil && len(b.queue.lanes) > 0
}

// usedUp returns for how long the bucket is used up, 0 if it is not.
func (b *RESTBucket) usedUp(now time.Duration) time.Duration {
	if b.window.Limit() == 0 || b.window.Remaining(now) > 0 {
		return 0
	}
	return b.window.State(now).Reset
}

// handOverKnowledge holds back in another bucket what finds this one used up, as nobody knows to which of both it belongs, unless that one
// knows better, or will at once from the answer that makes the route move; and what is held here by limits that are not those of the
// bucket: the resource's, those of bodies, and, unless both have a hash, whatever it is.
func (b *RESTBucket) handOverKnowledge(to *RESTBucket, answered bool) {
	now := b.now()
	if wait := b.usedUp(now); wait > 0 && !answered && !to.window.Known() {
		to.hold(to.now(), wait, ratelimits.ClassOK)
	}
	b.handOverHolds(to, b.family.named() && to.family.named() && b.window.HoldClass(now) != ratelimits.ClassShared)
}

// handOverHolds holds in another bucket, too, what is held here, or of that what limits of bodies hold.
func (b *RESTBucket) handOverHolds(to *RESTBucket, ofBodies bool) {
	now := b.now()
	if wait := b.window.HoldWait(now); wait > 0 && !ofBodies {
		to.hold(to.now(), wait, b.window.HoldClass(now))
	}
	if b.queue != nil {
		for shape, lane := range b.queue.lanes {
			to.open().openLane(shape).hold.Extend(to.now(), lane.hold.Wait(now))
		}
	}
}

// handOver moves a lease in flight from b to another bucket. It may be counted in either, so it stays charged here, too.
func (b *RESTBucket) handOver(h *held, to *RESTBucket) {
	now := b.now()
	b.depart(h)
	permit := h.permit
	h.permit = to.window.AdoptFrom(to.now(), &b.window, permit)
	b.window.Lost(now, permit)
	b.partner.settle(now, h, &outcome{sent: true})
	b.scout.found(now, to.family.hash)
	to.partner.adopt(to.now(), h)
	h.uncast(to)
	h.lane = nil
	if h.ordered {
		to.open().ordered++
	}
	to.launch(h)
	h.order = 0
}

// takeOver lets somebody wait here who waited in another bucket.
func (b *RESTBucket) takeOver(w *waiter) {
	w.lane = nil
	w.bucket.Store(b)
	b.open().waiting.Insert(&w.Element)
	b.partner.join(b.now(), w)
	b.awaitOverdue(b.now(), w)
}

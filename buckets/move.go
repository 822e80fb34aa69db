package buckets

import (
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// relocate ends a lease whose response shows that its request belongs elsewhere: the route's hash was learnt, or it changed. It returns the
// buckets to which others have moved.
func (m *RESTBucketManager) relocate(h *held, o *outcome) []*bucket {
	m.moves.Lock()
	defer m.moves.Unlock()
	b := h.lock()
	now := b.now()
	if !b.misplaced(now, h, o) {
		b.apply(now, h, o)
		b.dispatchNow(now)
		b.mu.Unlock()
		return nil
	}
	hinted := h.entry.hinted.Load()
	target, scope := h.entry.learn(now, b, h, &o.response)
	if target == b.group {
		b.apply(now, h, o)
		b.dispatchNow(now)
		b.mu.Unlock()
		return nil
	}
	target.noteToken(h.route)
	h.entry.leave(b.group, &o.response)
	// It is in flight in both buckets until everything else has moved, so that neither lets anybody go before.
	there := m.lockedBucket(target, target.keyIn(&h.route, h.major))
	charge := provisionalCharge{bucket: b, permit: h.permit}
	b.removeInFlight(h)
	h.ordered = false
	there.adoptInFlight(h, b)
	there.mu.Unlock()
	b.mu.Unlock()

	target.expect(now, h.major, &o.response, b.group)
	touched := m.move(h.entry, b, target, scope)
	switch {
	case b.group.kind == foreignGroup && scope == routeMoves:
		touched = append(touched, m.release(b)...)
	case target.kind == foreignGroup:
		touched = append(touched, m.gather(target)...)
	}
	if scope == routeMoves {
		touched = append(touched, m.moveFamily(h.entry, b, target, &o.response, hinted)...)
	}
	if scope >= majorMoves {
		m.chargeUndiscovered(there)
	}
	b.mu.Lock()
	now = b.now()
	charge.remove(now, scope == eitherCounts)
	b.discoveryLink.found(now, target.hash)
	b.dispatchNow(now)
	b.mu.Unlock()
	there.mu.Lock()
	there.apply(there.now(), h, o)
	there.dispatchNow(there.now())
	if scope < majorMoves && o.response.Class != ratelimits.ClassOK { // the request will come back to where it was
		if home := h.entry.groupOf(h.major); home != target {
			back := m.lockedBucket(home, home.keyIn(&h.route, h.major))
			there.passOnHolds(back, false)
			back.mu.Unlock()
			touched = append(touched, back)
		}
	}
	there.mu.Unlock()
	m.dispatchAll(touched)
	return touched
}

// dispatchAll lets those leave who can, and rejects those who cannot wait, in buckets to which requests have moved.
func (m *RESTBucketManager) dispatchAll(touched []*bucket) {
	for _, b := range touched {
		b.mu.Lock()
		b.dispatchNow(b.now())
		b.rejectLate(b.now())
		b.mu.Unlock()
	}
}

// move lets requests of a route, waiting or in flight, move to another limit group: those in b, or those in all buckets of its group,
// each to the bucket of its own major parameter. Those who wait keep their order; new ones of the route wait for the move to end. It
// returns the buckets that have to be dispatched.
func (m *RESTBucketManager) move(e *routeEntry, b *bucket, to *limitGroup, scope moveScope) []*bucket {
	if scope < majorMoves {
		return nil
	}
	e.moving.Lock()
	defer e.moving.Unlock()
	e.changing.Store(true)
	defer e.changing.Store(false)
	touched := make(map[*bucket]struct{})
	sources := []*bucket{b}
	if scope == routeMoves {
		sources = e.bucketsOf(b, to)
	}
	for _, source := range sources {
		if source.group == to { // some are where they belong
			continue
		}
		source.mu.Lock()
		with := func(major major, f func(to *bucket)) {
			target := m.lockedBucket(to, major)
			f(target)
			target.mu.Unlock()
			touched[target] = struct{}{}
		}
		passesOn := !source.group.kind.unknown() && source.group.passesOn() && to.passesOn() && !e.hinted.Load()
		if passesOn && source.remembers(source.now()) {
			with(source.major, func(to *bucket) { source.passOnKnowledge(to, source == b) })
		}
		source.moveOut(e, to, with)
		source.dispatchNow(source.now())
		source.mu.Unlock()
	}
	var held map[resource]time.Duration
	if !e.hinted.Load() {
		held = e.heldResources()
	}
	if scope == majorMoves {
		e.assignMajor(b.major, to)
	} else {
		e.assign(to, b.group)
	}
	e.holdMoved(held)
	result := slices.Collect(maps.Keys(touched))
	m.chargeUndiscovered(result...)
	return result
}

// passesOn reports that what is known of a bucket of the limit group says something of those of another one with the same major parameter.
func (group *limitGroup) passesOn() bool {
	return group.kind != pathGroup && group.kind != foreignGroup
}

// bucketsOf returns all buckets whose requests of a route move with those of b to another limit group: those of its group, and of
// major parameters that belong elsewhere unless they stay there.
func (e *routeEntry) bucketsOf(b *bucket, to *limitGroup) []*bucket {
	all := []*bucket{b}
	if b.group.kind == unknownGroup || b.group.kind == foreignGroup {
		return all
	}
	groups := map[*limitGroup]struct{}{b.group: {}}
	if to.kind != hashGroup {
		groups[e.group.Load()] = struct{}{}
		if byMajor := e.groupsByMajor.Load(); byMajor != nil {
			for _, group := range byMajor.All() {
				groups[group] = struct{}{}
			}
		}
	}
	for group := range groups {
		for _, other := range group.all() {
			if other != b && e.groupOf(other.major) == group {
				all = append(all, other)
			}
		}
	}
	return all
}

// moveOut moves all that belongs to a route out of b, which is locked, to another limit group. transfer calls its function with the bucket
// there of the major parameter, locked.
func (b *bucket) moveOut(e *routeEntry, group *limitGroup, transfer func(major, func(to *bucket))) {
	for h := b.inFlight; h != nil; {
		next := h.next
		if h.entry == e {
			group.noteToken(h.route)
			transfer(group.keyIn(&h.route, h.major), func(to *bucket) { b.moveInFlight(h, to) })
		}
		h = next
	}
	for _, l := range b.group.takeLost(e) {
		if group.kind.unknown() {
			group.lose(l)
			continue
		}
		transfer(group.keyIn(&l.route, l.major), func(to *bucket) { to.chargeLost(l) })
	}
	for _, q := range b.queues.byArrival() { // so that the turns of groups begin in that order there, too
		for w := range q.waiters {
			if w.entry == e {
				group.noteToken(w.request.Route)
				transfer(group.keyIn(&w.request.Route, w.major()), func(to *bucket) {
					b.remove(w)
					to.accept(w)
				})
			}
		}
	}
}

// remembers reports whether something is known here that still counts when a route moves to another bucket.
func (b *bucket) remembers(now time.Duration) bool {
	return b.window.HoldWait(now) > 0 || b.usedUp(now) > 0 || b.queues != nil && len(b.queues.subLimits) > 0
}

// usedUp returns for how long the bucket is used up, 0 if it is not.
func (b *bucket) usedUp(now time.Duration) time.Duration {
	if b.window.Limit() == 0 || b.window.Remaining(now) > 0 {
		return 0
	}
	return b.window.State(now).Reset
}

// passOnKnowledge holds back in another bucket what finds this one used up, as nobody knows to which of both it belongs, unless that one
// knows better, or will at once from the answer that makes the route move; and what is held here by limits that are not those of the
// bucket: the resource's, those of bodies, and, unless both have a hash, whatever it is.
func (b *bucket) passOnKnowledge(to *bucket, told bool) {
	now := b.now()
	if wait := b.usedUp(now); wait > 0 && !told && !to.window.Known() {
		to.hold(to.now(), wait, ratelimits.ClassOK)
	}
	b.passOnHolds(to, b.group.hasHash() && to.group.hasHash() && b.window.HoldClass(now) != ratelimits.ClassShared)
}

// passOnHolds holds in another bucket, too, what is held here, or of that what limits of bodies hold.
func (b *bucket) passOnHolds(to *bucket, ofBodies bool) {
	now := b.now()
	if wait := b.window.HoldWait(now); wait > 0 && !ofBodies {
		to.hold(to.now(), wait, b.window.HoldClass(now))
	}
	if b.queues != nil {
		for key, q := range b.queues.subLimits {
			there := to.subLimit(to.now(), key)
			there.hold.Extend(to.now(), q.hold.Wait(now))
			if q.refusals.Row() > there.refusals.Row() {
				there.refusals = q.refusals
			}
		}
	}
}

// moveInFlight moves a lease in flight from b to another bucket. It may be counted in either, so it stays charged here, too: until its own
// response tells, if the route was here by a hint.
func (b *bucket) moveInFlight(h *held, to *bucket) {
	now := b.now()
	b.removeInFlight(h)
	permit := h.permit
	to.adoptInFlight(h, b)
	if h.entry.hinted.Load() {
		h.provisional = append(h.provisional, provisionalCharge{bucket: b, permit: permit})
	} else {
		b.report(now, &permit, &ratelimits.Response{})
	}
	b.discoveryLink.found(now, to.group.hash)
	h.unchargeFrom(to)
}

// adoptInFlight takes in a lease that was in flight in another bucket. Both are locked.
func (b *bucket) adoptInFlight(h *held, from *bucket) {
	now := b.now()
	if !b.group.passesOn() || !from.group.passesOn() { // requests that were answered there had other paths
		h.permit = b.adopt(now, h.permit.Sent())
	} else {
		h.permit = b.adoptFrom(now, &from.source, h.permit)
	}
	if h.subLimit != nil {
		h.subLimit = b.subLimit(now, h.subLimitKey)
	}
	b.arrived = max(b.arrived, h.arrived) // its place if it comes back
	b.addInFlight(h)
	h.order = 0
}

// accept lets somebody wait here who waited in another bucket.
func (b *bucket) accept(w *waiter) {
	b.insert(w)
	b.awaitOverdue(b.now(), w)
}

// adoptHash lets the route of an UNKNOWN bucket move to where another process has found that it belongs. It reports whether it did.
func (m *RESTBucketManager) adoptHash(b *bucket, hash string) bool {
	m.moves.Lock()
	defer m.moves.Unlock()
	if m.closed() {
		return false
	}
	a, found := b.group.authentication, false
	for e := range a.routes {
		if e.group.Load() != b.group {
			continue
		}
		found = true
		if f := a.familyOf(e.route); f != nil && b.group.family != "" {
			f.learn(e.route, groupKey{kind: hashGroup, hash: hash}, false, false)
			e.hinted.Store(true)
		}
		m.dispatchAll(m.move(e, b, e.groupOfHash(hash), routeMoves))
	}
	return found
}

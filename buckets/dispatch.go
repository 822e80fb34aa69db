package buckets

import (
	"time"
)

// tryGrant grants the ask if nothing stands against it and nobody waits. Otherwise nothing has changed; the error is that of
// the budget.
func (b *bucket) tryGrant(now time.Duration, a *ask) (Lease, bool, error) {
	if b.blocks(now, a) {
		return Lease{}, false, nil
	}
	if at, ok := b.next(now, a); !ok || at > now {
		return Lease{}, false, nil
	}
	var p gatePermits
	if err := b.server().budget.take(now, a, b, &p); err != nil {
		return Lease{}, false, err
	}
	if missing := b.takeAbove(now, a, &p); missing != nil {
		b.returnPermits(now, p)
		return Lease{}, false, nil
	}
	lease, ok := b.grant(now, a, b.place(now, a), &p, false)
	b.returnPermits(now, p)
	return lease, ok, nil
}

// next returns when the ask can be granted as far as the bucket itself is concerned. ok is false if only an outcome can tell.
func (b *bucket) next(now time.Duration, a *ask) (at time.Duration, ok bool) {
	if b.awaitsOutcome(a) {
		return 0, false
	}
	if at, ok = b.nextPermit(now); ok && at <= now && !b.discoveryLink.allows(now) {
		return 0, false
	}
	return at, ok
}

// awaitsOutcome reports that the ask has to wait for the outcome of a request in flight, whatever the limits are.
func (b *bucket) awaitsOutcome(a *ask) bool {
	return b.reading > 0 || b.queues != nil && b.queues.ordered > 0 && b.serial(a) || b.tries(a.entry)
}

// serial reports that the ask goes alone among its like.
func (b *bucket) serial(a *ask) bool { return a.ordered || b.group.kind == unstableGroup }

// grant makes a lease, of one that may have waited. Everything that it needs has been found to be there; but what processes share may be gone since, then it reports false
// and has changed nothing.
func (b *bucket) grant(now time.Duration, a *ask, arrived time.Duration, p *gatePermits, waited bool) (Lease, bool) {
	var permit permit
	if !b.take(now, &permit) {
		if b.link == nil {
			panic("buckets: window promised a permit and gave none")
		}
		return Lease{}, false
	}
	b.discoveryLink.probeSent()
	h := leases.Get().(*held)
	h.grant = grant{
		permit: permit, ctx: a.ctx, entry: a.entry, credential: a.own.authentication, route: a.request.Route, major: a.major(),
		fields: a.request.Fields, subLimitKey: a.request.subLimitKey,
		arrived: arrived, edge: p.edge, subLimit: b.queues.subLimitOf(a), ordered: b.serial(a),
	}
	h.declared = a.useDeclared(p)
	p.hasEdge = false
	if a.exempt {
		h.global = a.global().force(now)
	} else {
		h.global, p.of = p.global, nil
	}
	h.undiscovered.Store(b.undiscovered(a.entry))
	b.addInFlight(h)
	c := b.server().budget.counters.shardOf(b)
	if waited {
		c.waited.Add(1)
		b.manager().counters.waitTime.Add(int64(now - a.asked()))
	}
	c.countGrant(h)
	p.reserved.unreserve() // now it counts as in flight
	p.reserved = nil
	return h.lease(), true
}

// dispatch grants what can be granted, in order, and arranges for the next look: by the alarm, in line at a gate, or by the
// outcome of a request. It uses up what it can of p. The other processes then hear who still waits. It is called after everything that may have
// changed what waits or what it waits for:
//
//	somebody has come (enqueue), has left without a permit (withdraw), or was rejected
//	a request of the bucket has ended (finish), or one of another bucket that was charged here (provisional)
//	it is time (the alarm), or a line serves one of the queues (serve)
//	requests, or their route, have moved (move), and holds were lifted, or a state restored
//	other processes have something new to say
func (b *bucket) dispatch(now time.Duration, p *gatePermits) {
	if b.grantQueued(now, p); b.queues == nil {
		b.discoveryLink.release(now)
	}
	b.tell(now)
}

// grantQueued grants what can be granted, and arranges for the next look.
func (b *bucket) grantQueued(now time.Duration, p *gatePermits) {
	qs := b.queues
	if qs == nil {
		return
	}
	if b.manager().closed() { // all are rejected now, and the state that is written may not count any more who would leave
		return
	}
	wake := time.Duration(0) // 0: no time will help
	for {
		w, opens := b.first(now)
		if w == nil {
			wake = opens
			break
		}
		at, ok := b.next(now, &w.ask)
		if !ok {
			if err := b.waitError(); err != nil {
				b.rejectAll(err)
				continue
			}
			b.stopAt(now, &w.ask)
			wake = opens
			break
		}
		if at > now {
			b.stopAt(now, &w.ask)
			wake = at
			break
		}
		qs.opening.pass(now)
		if err := b.server().budget.take(now, &w.ask, b, p); err != nil {
			b.remove(w)
			b.resolve(w, Lease{}, err)
			continue
		}
		q := qs.find(&w.ask)
		p.declared = append(p.declared, b.takeKept(q)...)
		if missing := b.takeAbove(now, &w.ask, p); missing != nil {
			if missing.declared() { // else it would keep for long what others can use, and not have it when it is its turn
				b.keep(now, q, w.useDeclared(p))
			}
			q.stopAbove(missing)
			if err := missing.waitError(now); err != nil {
				b.rejectQueue(q, err)
			} else {
				missing.enqueue(now, q)
			}
			continue // with others, who may need less
		}
		q.opening.pass(now)
		lease, ok := b.grant(now, &w.ask, w.Arrived, p, true)
		if !ok {
			wake = opens
			break
		}
		qs.ready.Spend()
		q.passed = nil
		reason := b.hasWaitedFor(q, w)
		b.remove(w)
		w.reason = reason
		b.resolve(w, lease, nil)
	}
	if next := b.returnKept(now); next > 0 && (wake == 0 || next < wake) {
		wake = next
	}
	if wake > 0 {
		b.wakeAt(now, wake)
	}
	b.dropQueues()
}

// dispatchNow dispatches with what it can take by itself, and gives back what is left.
func (b *bucket) dispatchNow(now time.Duration) {
	if b.queues == nil && b.link == nil && b.discoveryLink == nil { // as mostly
		return
	}
	var p gatePermits
	b.dispatch(now, &p)
	b.returnPermits(now, p)
}

// wakeAt lets the bucket, in which somebody waits, be looked at again at the given time.
func (b *bucket) wakeAt(now, at time.Duration) {
	if m := b.manager(); !m.closed() && !b.evicted.Load() { // it may be of before a restart
		b.queues.alarm.set(m.settings.clock, now, at, b.ring)
	}
}

// ring is called by the alarm.
func (b *bucket) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		return
	}
	b.queues.alarm.rang()
	now := b.now()
	if overdue := b.queues.overdue; overdue > 0 && now >= overdue && b.manager().outage() != nil {
		b.rejectOverdue(now)
	}
	b.dispatchNow(now)
	b.watchOverdue(now)
}

// serve is called by a line for a queue that stood there, with what it stood there for.
func (b *bucket) serve(q *queue, p gatePermits) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !q.line.above.declared() {
		q.passed = q.line
	}
	q.line = nil
	q.opening.pass(now)
	if b.queues.has(q) {
		b.queues.recount(q)
		b.keep(now, q, p.declared)
		p.declared = nil
		b.settle(now, q)
	}
	b.dispatch(now, &p)
	b.returnPermits(now, p)
}

// gatePermits are what was taken of what stands above a bucket, on behalf of its next request.
type gatePermits struct {
	edge, global gatePermit
	hasEdge      bool
	of           *gate // the global limit that global is a permit of, nil if there is none
	declared     []declaredPermit
	reserved     *counterShard // where a place in the budget of invalid requests is kept, nil if there is plenty
}

// takeAbove takes what is still missing of what stands above the bucket, the global limit last, and returns what refuses, nil if nothing does.
func (b *bucket) takeAbove(now time.Duration, a *ask, p *gatePermits) above {
	if missing := a.takeDeclared(now, p); missing != nil {
		return missing
	}
	if edge := b.group.authentication.edge; !p.hasEdge {
		if p.edge, p.hasEdge = edge.take(now); !p.hasEdge {
			return edge
		}
	}
	global := a.global()
	if a.exempt || p.of == global {
		return nil
	}
	if p.of != nil { // the request for which it was taken is not the next one
		p.of.giveBack(now, p.global)
		p.of = nil
	}
	var ok bool
	if p.global, ok = global.take(now); !ok {
		return global
	}
	p.of = global
	return nil
}

// returnPermits gives back what was taken of what stands above and not used.
func (b *bucket) returnPermits(now time.Duration, p gatePermits) {
	for _, d := range p.declared {
		d.giveBack(now)
	}
	if p.hasEdge {
		b.group.authentication.edge.giveBack(now, p.edge)
	}
	if p.of != nil {
		p.of.giveBack(now, p.global)
	}
	if p.reserved != nil {
		p.reserved.unreserve()
		b.manager().progressed() // it was counted as in flight
	}
}

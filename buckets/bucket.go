package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// RESTBucket is one bucket of Discord's: the window of a real bucket hash, with a queue in front of it that is first come,
// first served. The UNKNOWN bucket of a route is one too.
//
// Requests leave it under these conditions, in this order: the window has a permit, an ordered request has none before it
// in flight, the budget of invalid requests is not used up (then the request is refused), the edge is open, and the global
// limit has a slot, which is taken last so that none ages in a queue. A bucket that lacks one of the last two stands in
// line there.
//
// Locks: a bucket's lock is taken before that of a gate (edge, authentication) and never together with another bucket's,
// except by a move, of which there is one at a time.
type RESTBucket struct {
	group    *limitGroup
	major    major
	key      uint64 // in the table
	collided atomic.Bool
	evicted  atomic.Bool // changed only under the lock

	mu          sync.Mutex
	window      ratelimits.Window
	latest      time.Duration // of all times that it was
	inFlight    *held         // in flight
	queue       *queue
	arrived     time.Duration // when the latest request did
	limit       int32         // that the latest response named, and the route that it was for
	reading     int32         // refusals of which only the headers are known
	limitOf     *routeEntry
	namings     *naming // one for each route whose responses have named the bucket's hash
	sent        uint32  // how many requests have been sent from here, wrapping
	brought     int32   // how many waited when they were counted last; guarded by the gate it stands in line for, like two below
	unconnected bool    // from the buckets of other processes, as nobody has locked it yet
	inLine      bool
	link        *sharedLink    // nil if it is not shared
	discovery   *discoveryLink // nil if it is not an UNKNOWN bucket that is shared
	lineOf      *gate          // in whose line, if it is in one

	nextInLine, previousInLine   *RESTBucket
	nextInGroup, previousInGroup *RESTBucket // guarded by the limit group's lock
}

// queue is what a bucket needs only while somebody waits for it, or while one of its requests is special.
type queue struct {
	waiting   fifo.Queue[*waiter]
	alarm     alarm
	subLimits map[uint64]*subLimit
	ordered   int           // ordered requests in flight
	overdue   time.Duration // when the first of those who wait will have waited too long, as far as anybody looked; 0: not known
}

func (b *RESTBucket) manager() *RESTBucketManager { return b.group.authentication.global.manager }

func (b *RESTBucket) server() *server { return b.group.authentication.server }

// lock locks the bucket, and links it if that has not been done.
func (b *RESTBucket) lock() {
	b.mu.Lock()
	if b.unconnected {
		b.connect()
	}
}

func (b *RESTBucket) unlock() { b.mu.Unlock() }

// now returns what time it is for the bucket, which is locked: never earlier than before, whatever the clock says.
func (b *RESTBucket) now() time.Duration {
	b.latest = max(b.latest, b.manager().now())
	return b.latest
}

// arrive returns the arrival time of a request that comes now. No two are the same, however coarse the clock.
func (b *RESTBucket) arrive(now time.Duration) time.Duration {
	b.arrived = max(now+HeadStart, b.arrived+1) // so that there is room before the first
	return b.arrived
}

// place returns the ask's place in the queue: when it arrived, or earlier if it has priority. One that comes back has one.
func (b *RESTBucket) place(now time.Duration, a *ask) time.Duration {
	if a.request.arrived != 0 {
		return a.request.arrived
	}
	arrived := b.arrive(now)
	if a.priority {
		return max(arrived-HeadStart, 1)
	}
	return arrived
}

// open returns the queue, creating it if need be.
func (b *RESTBucket) open() *queue {
	if b.queue == nil {
		b.queue = &queue{}
		b.group.authentication.queueOpened(b)
	}
	return b.queue
}

// queued returns the number of requests in the queue, without those that a hidden limit holds.
func (b *RESTBucket) queued() int {
	if b.queue == nil {
		return 0
	}
	return b.queue.waiting.Len()
}

// waiting returns the number of all requests that wait.
func (b *RESTBucket) waiting() int {
	if b.queue == nil {
		return 0
	}
	n := b.queue.waiting.Len()
	for _, s := range b.queue.subLimits {
		n += s.waiting.Len()
	}
	return n
}

// ahead returns how many wait before an ask at its place. Those whom a hidden limit holds are before nobody else.
func (b *RESTBucket) ahead(a *ask, arrived time.Duration) (n int) {
	if b.queue == nil {
		return 0
	}
	if s := b.queue.subLimitOf(a); s != nil {
		n = s.waiting.Len()
	}
	if !a.priority {
		return n + b.queue.waiting.Len()
	}
	for e := b.queue.waiting.Head(); e != nil && e.Arrived <= arrived; e = e.Next() {
		n++
	}
	return n
}

// tryGrant grants the ask if nothing stands against it and nobody waits. Otherwise nothing has changed; the error is that of
// the budget.
func (b *RESTBucket) tryGrant(now time.Duration, a *ask) (Lease, bool, error) {
	if b.link.syncLoan(now); !b.link.decides(now) { // it needs a ticket
		return Lease{}, false, nil
	}
	if b.inLine || b.queue != nil && b.queue.blocks(a) {
		return Lease{}, false, nil
	}
	if at, ok := b.next(now, a); !ok || at > now {
		return Lease{}, false, nil
	}
	var p gatePermits
	if err := b.server().budget.take(now, a, b, &p); err != nil {
		return Lease{}, false, err
	}
	if missing := b.takeGates(now, a, &p); missing != nil {
		b.returnPermits(now, p)
		return Lease{}, false, nil
	}
	return b.grant(now, a, b.place(now, a), &p, nil), true, nil
}

// next returns when the ask can be granted as far as the bucket itself is concerned. ok is false if only an outcome can tell.
func (b *RESTBucket) next(now time.Duration, a *ask) (at time.Duration, ok bool) {
	if b.reading > 0 || b.queue != nil && b.queue.ordered > 0 && b.serial(a) {
		return 0, false
	}
	if b.link.refreshLoan(); !b.link.decides(now) {
		return b.link.next(now)
	}
	if at, ok = b.window.Next(now); ok && at <= now && !b.discovery.allows(now) {
		return 0, false
	}
	return at, ok
}

// serial reports that the ask goes alone among its like.
func (b *RESTBucket) serial(a *ask) bool { return a.ordered || b.group.kind == unstableGroup }

// grant makes a lease. Everything that it needs has been found to be there.
func (b *RESTBucket) grant(now time.Duration, a *ask, arrived time.Duration, p *gatePermits, s *subLimit) Lease {
	h := leases.Get().(*held)
	permit := b.permit(now)
	h.grant = grant{
		permit: permit, entry: a.entry, route: a.request.Route, major: a.major(), fields: a.request.Fields, subLimitKey: a.request.subLimitKey,
		arrived: arrived, edge: p.edge, subLimit: s, ordered: b.serial(a),
	}
	p.hasEdge = false
	if a.exempt {
		h.global = b.group.authentication.global.force(now)
	} else {
		h.global, p.hasGlobal = p.global, false
	}
	h.undiscovered.Store(b.seeks(a.entry))
	if h.ordered {
		b.open().ordered++
	}
	b.addInFlight(h)
	b.server().budget.counters.shardOf(b).countGrant(h)
	p.reserved.unreserve() // now it counts as in flight
	p.reserved = nil
	return h.lease()
}

// permit takes the window's permit for a request that is sent now. If the window does not decide, it looks on.
func (b *RESTBucket) permit(now time.Duration) ratelimits.Permit {
	if !b.link.decides(now) {
		return b.window.Adopt(now, now)
	}
	permit, ok := b.window.Take(now)
	if !ok {
		panic("buckets: window promised a permit and gave none")
	}
	b.discovery.probeSent()
	return permit
}

// addInFlight notes a lease as in flight in this bucket, land takes it out again.
func (b *RESTBucket) addInFlight(h *held) {
	if h.undiscovered.Load() {
		b.group.authentication.undiscovered.Add(1)
	}
	if h.pausesBucket() {
		b.reading++
	}
	b.sent++
	h.order = b.sent
	if h.bucket.Load() != b { // it may have been here before
		h.bucket.Store(b)
	}
	h.previous, h.next = nil, b.inFlight
	if b.inFlight != nil {
		b.inFlight.previous = h
	}
	b.inFlight = h
}

func (b *RESTBucket) removeInFlight(h *held) {
	if h.undiscovered.Load() {
		b.group.authentication.undiscovered.Add(-1)
		h.undiscovered.Store(false)
	}
	if h.pausesBucket() {
		b.reading--
	}
	if h.previous == nil {
		b.inFlight = h.next
	} else {
		h.previous.next = h.next
	}
	if h.next != nil {
		h.next.previous = h.previous
	}
	h.next, h.previous = nil, nil
}

// dispatch grants what can be granted, in order, and arranges for the next look: by the alarm, in line at a gate, or by the
// outcome of a request. It is called after everything that may have changed what waits or what it waits for. It uses up
// what it can of p.
func (b *RESTBucket) dispatch(now time.Duration, p *gatePermits) {
	b.link.syncLoan(now)
	b.inLine = b.inLine && b.lineOf.count(b)
	q := b.queue
	if q == nil {
		b.discovery.release(now)
		return
	}
	if b.inLine {
		return
	}
	wake := time.Duration(0) // 0: no time will help
	for {
		opens := q.openSubLimits(now)
		head := q.waiting.Head()
		if head == nil {
			wake = opens
			break
		}
		w := head.Value
		if q.divert(now, w) {
			continue
		}
		at, ok := b.next(now, &w.ask)
		if !ok {
			if err := b.outage(); err != nil {
				b.refuseAll(err)
				continue
			}
			wake = opens
			break
		}
		if at > now {
			wake = at // those in sub-limits cannot leave before, either
			break
		}
		if err := b.server().budget.take(now, &w.ask, b, p); err != nil {
			b.remove(w)
			b.resolve(w, Lease{}, err)
			continue
		}
		if missing := b.takeGates(now, &w.ask, p); missing != nil {
			if err := missing.outage(now); err != nil {
				b.refuseAll(err)
				continue
			}
			missing.enqueue(now, b)
			break
		}
		lease := b.grant(now, &w.ask, w.Arrived, p, w.subLimit)
		if !b.link.decides(now) {
			lease.held.ticket = b.link.take(now, w)
		}
		q.waiting.Remove(&w.Element)
		b.resolve(w, lease, nil)
	}
	if wake > 0 {
		if clock := b.manager().settings.clock; !b.manager().closed() {
			q.alarm.set(clock, now, wake, b.ring)
		}
	}
	if b.shut(); b.queue == nil {
		b.discovery.release(now)
	}
}

// shut drops the queue when nothing needs it.
func (b *RESTBucket) shut() {
	q := b.queue
	if q.waiting.Len() == 0 && len(q.subLimits) == 0 && q.ordered == 0 {
		q.alarm.stop()
		b.queue = nil
		b.group.authentication.queueClosed(b)
	}
}

// resolve tells a waiter, which is in no queue any more, what became of it.
func (b *RESTBucket) resolve(w *waiter, l Lease, err error) {
	m := b.manager()
	m.waiting.Add(-1)
	w.held, w.err = l.held, err
	if w.granted != nil {
		m.calls.push(w)
		return
	}
	w.ready <- struct{}{}
}

// ring is called by the alarm.
func (b *RESTBucket) ring() {
	b.lock()
	defer b.unlock()
	if b.queue == nil {
		return
	}
	b.queue.alarm.rang()
	now := b.now()
	if overdue := b.queue.overdue; overdue > 0 && now >= overdue && b.manager().outage() != nil {
		b.refuseOverdue(now)
	}
	b.dispatchFree(now)
	b.watchOverdue(now)
}

// dispatchFree dispatches with what it can take by itself, and gives back what is left.
func (b *RESTBucket) dispatchFree(now time.Duration) {
	var p gatePermits
	b.dispatch(now, &p)
	b.returnPermits(now, p)
}

// serve is called by a gate for a bucket that stood in line, with what the gate has to give.
func (b *RESTBucket) serve(p gatePermits) {
	b.lock()
	defer b.unlock()
	now := b.now()
	b.inLine = false
	b.dispatch(now, &p)
	b.returnPermits(now, p)
}

// enqueue lets an ask wait at its place, as w.
func (b *RESTBucket) enqueue(now time.Duration, a *ask, arrived time.Duration, w *waiter) *waiter {
	w.Value, w.Arrived, w.ask = w, arrived, *a
	w.bucket.Store(b)
	b.open().waiting.Insert(&w.Element)
	b.link.join(now, w)
	b.manager().waiting.Add(1)
	b.dispatchFree(now)
	if a.atOnce && w.Queued() && b.canTell(now, &w.ask, w) {
		b.refuseLate(now)
	}
	if w.Queued() {
		b.awaitOverdue(now, w)
	}
	return w
}

// remove takes a waiter out of the queue or sub-limit in which it waits. It reports false if it is in none.
func (b *RESTBucket) remove(w *waiter) bool {
	if !w.Queued() { // it has been answered, and its request may be in use again
		return false
	}
	if b.queue.waiting.Remove(&w.Element) {
		b.link.leave(b.now(), w)
		if w.subLimit != nil {
			w.subLimit.oneOut = false
		}
		return true
	}
	return b.queue.leaveSubLimit(w)
}

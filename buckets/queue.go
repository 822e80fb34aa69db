package buckets

import (
	"cmp"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// queues are what a bucket needs only while somebody waits for it, or while one of its requests is special. A nil one is empty.
type queues struct {
	main      queue               // of all who have no group, and wait for nothing but the bucket
	others    map[queueKey]*queue // of those who have one, or are subject to declared limits
	subLimits map[uint64]*queue   // of those who wait for a sub-limit, too
	ready     fifo.Turns[*queue]  // those whose first leaves when the bucket lets it, by when that arrived
	waiting   int                 // how many wait, in all of them
	free      int                 // of these, how many neither a sub-limit nor a declared limit holds
	weights   int                 // of the groups to which these belong
	unnamed   groupCount          // those of them who have no group
	named     map[string]groupCount
	kept      int           // permits of declared limits that queues keep
	keptUntil time.Duration // until then none is kept for too long, as far as anybody looked
	heldUntil time.Duration // until then each sub-limit is held, as far as anybody looked: there may be very many
	alarm     alarm
	ordered   int           // ordered requests in flight
	opening   opening       // of the bucket itself
	overdue   time.Duration // when the first of those who wait will have waited too long, as far as anybody looked; 0: not known
}

// queue is those of a bucket who wait for the same: first come, first served. It is in one of these states:
//
//	ready    its first leaves when the bucket lets it, and it is its turn
//	in line  its first waits for a gate or a declared limit
//	closed   nobody waits in it, or its sub-limit holds them
//
// That of a sub-limit has a hold of its own. It exists from the 429 that revealed the limit on what a body asks for until the hold
// is over and nobody waits any more. How much the sub-limit allows is not known, so after the hold its requests go one at a time, each when
// the one before has ended. All others exist while somebody waits in them.
type queue struct {
	bucket  *bucket
	key     queueKey
	weight  int // of the group
	waiting fifo.Queue[*waiter]
	free    int                  // how many of them are counted as free
	turn    fifo.Element[*queue] // among those that are ready
	line    *line                // in which it stands, or by which it is about to be served; nil if none
	place   place                // there, guarded by that line
	kept    []declaredPermit
	passed  *line // that of a gate, where it had its turn, and nobody of it has left since, for want of something else

	opening opening // of what stands above the bucket, and of a sub-limit

	subLimit bool // it is that of a sub-limit
	hold     ratelimits.Throttle
	refusals ratelimits.Refusals
	inFlight bool // a request of the sub-limit is
}

// queueKey is what those have in common who wait in a queue.
type queueKey struct {
	group  string
	limits uint64 // identifies the declared limits, 0: none
	global *gate  // the global limit, nil if it is that of the bucket's authentication
}

// authentication returns that of the requests in the queue.
func (q *queue) authentication() *authentication {
	if q.key.global != nil {
		return q.key.global.authentication
	}
	return q.bucket.group.authentication
}

// open reports that the first of the queue may leave as far as a sub-limit is concerned.
func (q *queue) open(now time.Duration) bool { return !q.inFlight && q.hold.Wait(now) == 0 }

// wanted returns how many of the queue want something of the bucket now, and of what stands above it.
func (q *queue) wanted(now time.Duration) int {
	switch n := q.waiting.Len(); {
	case q.keepsUntil() > 0 && now >= q.keepsUntil():
		return 0
	case !q.subLimit:
		return n
	case q.open(now):
		return min(n, 1)
	}
	return 0
}

// keepsUntil returns until when a queue that waits for a declared limit keeps what it has of its bucket, 0 if it does not wait for one.
func (q *queue) keepsUntil() time.Duration {
	if q.line == nil || !q.line.above.declared() {
		return 0
	}
	return q.place.since + mostKept
}

// waiters yields all who wait, in order. The one that is yielded may be removed.
func (q *queue) waiters(yield func(*waiter) bool) {
	for e := q.waiting.Head(); e != nil; {
		w := e.Value
		if e = e.Next(); !yield(w) {
			return
		}
	}
}

// all yields all queues, the main one first.
func (qs *queues) all(yield func(*queue) bool) {
	if qs == nil || !yield(&qs.main) {
		return
	}
	for _, q := range qs.others {
		if !yield(q) {
			return
		}
	}
	for _, q := range qs.subLimits {
		if !yield(q) {
			return
		}
	}
}

// byArrival returns the queues in which somebody waits, by when the first of each arrived.
func (qs *queues) byArrival() (all []*queue) {
	for q := range qs.all {
		if q.waiting.Len() > 0 {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *queue) int { return cmp.Compare(a.waiting.Head().Arrived, b.waiting.Head().Arrived) })
	return all
}

// has reports whether the queue is one of them.
func (qs *queues) has(queue *queue) bool {
	switch {
	case qs == nil:
		return false
	case !queue.subLimit:
		return qs.ofKey(queue.key) == queue
	}
	for _, q := range qs.subLimits {
		if q == queue {
			return true
		}
	}
	return false
}

// find returns the queue in which an ask waits that has been looked at, or would; nil if there is none.
func (qs *queues) find(a *ask) *queue {
	if qs == nil {
		return nil
	}
	if q := qs.subLimits[a.request.subLimitKey]; q != nil {
		return q
	}
	return qs.ofKey(a.queueKey())
}

func (qs *queues) ofKey(key queueKey) *queue {
	if key == (queueKey{}) {
		return &qs.main
	}
	return qs.others[key]
}

// subLimitOf returns the queue of the sub-limit that an ask waits for, nil if there is none.
func (qs *queues) subLimitOf(a *ask) *queue {
	if qs == nil {
		return nil
	}
	return qs.subLimits[a.request.subLimitKey]
}

// lineOf returns the line in which the queue of an ask stands, nil if in none.
func (qs *queues) lineOf(a *ask) *line {
	if q := qs.find(a); q != nil {
		return q.line
	}
	return nil
}

// standIn reports that one of them stands in a line.
func (qs *queues) standIn(l *line) bool {
	for q := range qs.all {
		if q.line == l {
			return true
		}
	}
	return false
}

// wanted returns how many want something of the bucket now.
func (qs *queues) wanted(now time.Duration) (n int) {
	for q := range qs.all {
		n += q.wanted(now)
	}
	return n
}

// length returns how many wait, in all queues.
func (qs *queues) length() int {
	if qs == nil {
		return 0
	}
	return qs.waiting
}

// queueOf returns the queue in which an ask waits, making it if need be.
func (b *bucket) queueOf(a *ask) *queue {
	qs := b.makeQueues()
	q := qs.find(a)
	if q == nil {
		q = &queue{bucket: b, key: a.queueKey(), weight: max(int(a.weight), 1)}
		if qs.others == nil {
			qs.others = make(map[queueKey]*queue)
		}
		qs.others[q.key] = q
	}
	return q
}

// settle puts a queue where it belongs when somebody has come or gone, or its sub-limit has opened or closed.
func (b *bucket) settle(now time.Duration, q *queue) {
	qs, head := b.queues, q.waiting.Head()
	if head == nil {
		q.passed = nil
		for _, p := range b.takeKept(q) {
			p.giveBack(now)
		}
	}
	if q.line != nil {
		if q.line.count(now, q) {
			return
		}
		q.line = nil
		qs.recount(q)
	}
	switch {
	case head == nil:
		qs.ready.Remove(&q.turn, q.key.group)
	case !q.open(now):
		q.opening.stop(WaitsForSubLimit)
		qs.ready.Remove(&q.turn, q.key.group)
	case !q.turn.Queued():
		if q.subLimit {
			q.opening.pass(now)
		}
		q.turn.Value, q.turn.Arrived = q, head.Arrived
		qs.ready.Insert(&q.turn, q.key.group, q.weight)
	case q.turn.Arrived != head.Arrived:
		qs.ready.Move(&q.turn, head.Arrived, q.key.group)
	}
	if head == nil && !q.subLimit {
		delete(qs.others, q.key)
	}
}

// openSubLimits lets those go who waited for sub-limits whose hold is over, forgets sub-limits that nobody needs any more, and returns
// when the next one opens, 0 if none does by itself.
func (b *bucket) openSubLimits(now time.Duration) (opens time.Duration) {
	qs := b.queues
	if now < qs.heldUntil {
		return qs.heldUntil
	}
	allHeld := true
	for key, q := range qs.subLimits {
		held := q.hold.Wait(now) > 0
		allHeld = allHeld && held
		if held && (opens == 0 || q.hold.Until() < opens) {
			opens = q.hold.Until()
		}
		if q.line == nil {
			b.settle(now, q)
		}
		if q.waiting.Len() == 0 && !held && !q.inFlight {
			delete(qs.subLimits, key)
		}
	}
	if allHeld {
		qs.heldUntil = opens
	}
	return opens
}

// first returns who leaves next, nil if all wait in line, or for sub-limits; and when the next sub-limit opens, 0 if none does by itself.
func (b *bucket) first(now time.Duration) (first *waiter, opens time.Duration) {
	opens = b.openSubLimits(now)
	if e := b.queues.ready.Head(); e != nil {
		first = e.Value.waiting.Head().Value
	}
	return first, opens
}

// foremost is first, but if there is none of those in line the one who arrived first.
func (b *bucket) foremost(now time.Duration) *waiter {
	if b.queues == nil {
		return nil
	}
	first, _ := b.first(now)
	if first != nil {
		return first
	}
	for q := range b.queues.all {
		if head := q.waiting.Head(); q.line != nil && head != nil && (first == nil || head.Arrived < first.Arrived) {
			first = head.Value
		}
	}
	return first
}

// blocks reports that an ask has to wait behind others. To which queue it belongs can be told only by its key.
func (b *bucket) blocks(now time.Duration, a *ask) bool {
	qs := b.queues
	if qs == nil {
		return false
	}
	if len(qs.subLimits) > 0 && a.request.subLimitKey == 0 {
		return true
	}
	first, _ := b.first(now)
	q := qs.find(a)
	return first != nil || q != nil && (q.waiting.Len() > 0 || !q.open(now))
}

// makeQueues returns the queues, making them if need be.
func (b *bucket) makeQueues() *queues {
	if b.queues == nil {
		b.queues = &queues{main: queue{bucket: b, weight: 1}}
		b.noteBusy()
	}
	return b.queues
}

// dropQueues drops the queues when nothing needs them.
func (b *bucket) dropQueues() {
	qs := b.queues
	if qs.waiting == 0 && len(qs.subLimits) == 0 && qs.ordered == 0 {
		qs.alarm.stop()
		b.queues = nil
		b.noteBusy()
	}
}

// subLimit returns the queue of a sub-limit. If it has to be made, those who wait for that limit leave the others for it.
func (b *bucket) subLimit(now time.Duration, key uint64) *queue {
	qs := b.makeQueues()
	if q := qs.subLimits[key]; q != nil {
		return q
	}
	if qs.subLimits == nil {
		qs.subLimits = make(map[uint64]*queue)
	}
	q := &queue{bucket: b, weight: 1, subLimit: true}
	for other := range qs.all {
		for w := range other.waiters {
			if !other.subLimit && w.request.subLimitKey == key {
				b.remove(w)
				q.waiting.Insert(&w.Element)
				qs.count(q, 1)
			}
		}
	}
	qs.subLimits[key], qs.heldUntil = q, 0
	b.settle(now, q)
	return q
}

// arrive returns the arrival time of a request that comes now. No two are the same, however coarse the clock.
func (b *bucket) arrive(now time.Duration) time.Duration {
	b.arrived = max(now, b.arrived+1)
	return b.arrived
}

// place returns the ask's place in the queue: when it arrived, or earlier if it has priority. One that comes back has one.
func (b *bucket) place(now time.Duration, a *ask) time.Duration {
	if a.request.arrived != 0 {
		return a.request.arrived
	}
	arrived := b.arrive(now)
	if a.priority {
		return arrived - HeadStart
	}
	return arrived
}

// enqueue lets an ask wait at its place, as w.
func (b *bucket) enqueue(now time.Duration, a *ask, arrived time.Duration, w *waiter) *waiter {
	w.Value, w.Arrived, w.ask = w, arrived, *a
	b.insert(w)
	b.manager().waiting.Add(1)
	b.dispatchNow(now)
	if a.atOnce && w.Queued() && b.canTell(now, &w.ask, w, b.queues.ahead(&w.ask, w.Arrived-1)) {
		b.rejectLate(now)
	}
	if w.Queued() {
		b.awaitOverdue(now, w)
	}
	return w
}

// insert puts a waiter into the queue in which it waits.
func (b *bucket) insert(w *waiter) {
	w.bucket.Store(b)
	b.arrived = max(b.arrived, w.Arrived) // it may have come from another bucket
	q := b.queueOf(&w.ask)
	q.waiting.Insert(&w.Element)
	b.queues.count(q, 1)
	b.settle(b.now(), q)
}

// remove takes a waiter out of its queue. It reports false if it is in none.
func (b *bucket) remove(w *waiter) bool {
	if !w.Queued() { // it has been resolved, and its request may be in use again
		return false
	}
	q := b.queues.find(&w.ask)
	if q == nil || !q.waiting.Remove(&w.Element) {
		return false
	}
	w.reason = b.waitsStill(q, w)
	b.queues.count(q, -1)
	b.settle(b.now(), q)
	return true
}

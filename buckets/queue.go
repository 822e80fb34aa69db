package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// waiter is an ask that has to wait, in a queue of a bucket.
//
//	queued    until it is granted, refused or withdrawn
//	resolved  it is in no queue any more, and its caller has been told, or will be
//	withdrawn it left by itself and is in no queue any more
//
// There may be hundreds of thousands of them, so it keeps nothing that can be had from its request.
type waiter struct {
	fifo.Element[*waiter]
	ask
	bucket atomic.Pointer[bucket] // changed only under the locks of both the old and the new one
	reason WaitsFor               // what it waited for in the beginning, or when a probe was over

	// What became of it, and how its caller is told that: by the channel of capacity 1, or by a call.
	held    *held
	err     error
	ready   chan struct{}
	granted func(Lease, error)
	unwatch atomic.Pointer[func() bool] // ends the watch on the context of a call
}

// waiterPool keeps waiters for another use. Each manager has its own, so that the channels stay in the synctest bubble in
// which they were made.
type waiterPool struct{ pool sync.Pool }

func (p *waiterPool) get() *waiter {
	w, ok := p.pool.Get().(*waiter)
	if !ok {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	return w
}

// put makes the waiter available to others. Nobody else may know it any more.
func (p *waiterPool) put(w *waiter) {
	*w = waiter{ready: w.ready}
	p.pool.Put(w)
}

// queues are what a bucket needs only while somebody waits for it, or while one of its requests is special. A nil one is empty.
type queues struct {
	main      queue             // of all who wait for nothing but the bucket
	subLimits map[uint64]*queue // of those who wait for a sub-limit, too
	heldUntil time.Duration     // until then each of them is held, as far as anybody looked: there may be very many
	alarm     alarm
	ordered   int           // ordered requests in flight
	line      *gate         // in whose line the bucket stands, nil if in none
	place     place         // there, guarded by that gate
	probed    bool          // somebody may wait for a probe, or did when somebody looked last
	overdue   time.Duration // when the first of those who wait will have waited too long, as far as anybody looked; 0: not known
}

// queue is those of a bucket who wait for the same: first come, first served.
//
// That of a sub-limit has a hold of its own. It exists from the 429 that revealed the limit on what a body asks for until the hold
// is over and nobody waits any more. How much the sub-limit allows is not known, so after the hold its requests go one at a time, each when
// the one before has ended.
type queue struct {
	waiting  fifo.Queue[*waiter]
	hold     ratelimits.Throttle
	refusals ratelimits.Refusals
	inFlight bool // a request of the sub-limit is
}

// open reports that the first of the queue may leave as far as the queue is concerned.
func (q *queue) open(now time.Duration) bool { return !q.inFlight && q.hold.Wait(now) == 0 }

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
	for _, q := range qs.subLimits {
		if !yield(q) {
			return
		}
	}
}

// of returns the queue in which an ask waits that has been looked at, or would.
func (qs *queues) of(a *ask) *queue {
	if q := qs.subLimits[a.request.subLimitKey]; q != nil {
		return q
	}
	return &qs.main
}

// subLimitOf returns the queue of the sub-limit that an ask waits for, nil if there is none.
func (qs *queues) subLimitOf(a *ask) *queue {
	if qs == nil {
		return nil
	}
	return qs.subLimits[a.request.subLimitKey]
}

// queued returns how many wait for the bucket: without those that a sub-limit holds back.
func (qs *queues) queued(now time.Duration) (n int) {
	for q := range qs.all {
		switch {
		case q == &qs.main:
			n = q.waiting.Len()
		case q.open(now):
			n += min(q.waiting.Len(), 1)
		}
	}
	return n
}

// waiting returns how many wait, in all queues.
func (qs *queues) waiting() (n int) {
	for q := range qs.all {
		n += q.waiting.Len()
	}
	return n
}

// first returns who leaves next: the one who arrived first of those who are first in a queue that is open, nil if there is none; and when
// the next sub-limit opens, 0 if none does by itself. It forgets sub-limits that nobody needs any more.
func (b *bucket) first(now time.Duration) (first *waiter, opens time.Duration) {
	qs := b.queues
	if head := qs.main.waiting.Head(); head != nil {
		first = head.Value
	}
	if now < qs.heldUntil {
		return first, qs.heldUntil
	}
	allHeld := true
	for key, q := range qs.subLimits {
		held := q.hold.Wait(now) > 0
		allHeld = allHeld && held
		if held && (opens == 0 || q.hold.Until() < opens) {
			opens = q.hold.Until()
		}
		head := q.waiting.Head()
		switch {
		case head == nil && !held && !q.inFlight:
			delete(qs.subLimits, key)
		case head == nil:
		case held || q.inFlight:
		case first == nil || head.Arrived < first.Arrived:
			first = head.Value
		}
	}
	if allHeld {
		qs.heldUntil = opens
	}
	return first, opens
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
	return first != nil || !qs.of(a).open(now)
}

// makeQueues returns the queues, making them if need be.
func (b *bucket) makeQueues() *queues {
	if b.queues == nil {
		b.queues = &queues{}
		b.noteBusy()
	}
	return b.queues
}

// dropQueues drops the queues when nothing needs them.
func (b *bucket) dropQueues() {
	qs := b.queues
	if qs.main.waiting.Len() == 0 && len(qs.subLimits) == 0 && qs.ordered == 0 {
		qs.alarm.stop()
		b.queues = nil
		b.noteBusy()
	}
}

// subLimit returns the queue of a sub-limit. If it has to be made, those who wait for that limit leave the main queue for it.
func (b *bucket) subLimit(now time.Duration, key uint64) *queue {
	qs := b.makeQueues()
	if q := qs.subLimits[key]; q != nil {
		return q
	}
	if qs.subLimits == nil {
		qs.subLimits = make(map[uint64]*queue)
	}
	q := &queue{}
	for w := range qs.main.waiters {
		if w.request.subLimitKey == key {
			b.remove(w)
			q.waiting.Insert(&w.Element)
		}
	}
	qs.subLimits[key], qs.heldUntil = q, 0
	return q
}

// arrive returns the arrival time of a request that comes now. No two are the same, however coarse the clock.
func (b *bucket) arrive(now time.Duration) time.Duration {
	b.arrived = max(now+HeadStart, b.arrived+1) // so that there is room before the first
	return b.arrived
}

// place returns the ask's place in the queue: when it arrived, or earlier if it has priority. One that comes back has one.
func (b *bucket) place(now time.Duration, a *ask) time.Duration {
	if a.request.arrived != 0 {
		return a.request.arrived
	}
	arrived := b.arrive(now)
	if a.priority {
		return max(arrived-HeadStart, 1)
	}
	return arrived
}

// enqueue lets an ask wait at its place, as w.
func (b *bucket) enqueue(now time.Duration, a *ask, arrived time.Duration, w *waiter) *waiter {
	w.Value, w.Arrived, w.ask = w, arrived, *a
	b.insert(w)
	b.manager().waiting.Add(1)
	b.dispatchNow(now)
	if a.atOnce && w.Queued() && b.canTell(now, &w.ask, w, b.queues.main.waiting.Before(w.Arrived)-1) {
		b.refuseLate(now)
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
	qs := b.makeQueues()
	qs.of(&w.ask).waiting.Insert(&w.Element)
	qs.probed = qs.probed || w.reason == WaitsForProbe
}

// probeOver notes of those who have waited for a probe what they wait for now that it is over.
func (b *bucket) probeOver(now time.Duration) {
	if b.queues == nil || !b.queues.probed {
		return
	}
	reason, _ := b.waitsFor(now)
	if reason == WaitsForProbe {
		return
	}
	for q := range b.queues.all {
		for w := range q.waiters {
			if w.reason == WaitsForProbe {
				w.reason = reason
			}
		}
	}
	b.queues.probed = false
}

// remove takes a waiter out of its queue. It reports false if it is in none.
func (b *bucket) remove(w *waiter) bool {
	if !w.Queued() { // it has been resolved, and its request may be in use again
		return false
	}
	return b.queues.of(&w.ask).waiting.Remove(&w.Element)
}

// resolve tells a waiter, which is in no queue any more, what became of it.
func (b *bucket) resolve(w *waiter, l Lease, err error) {
	m := b.manager()
	m.waiting.Add(-1)
	m.progressed()
	w.held, w.err = l.held, err
	if w.granted != nil {
		m.calls.push(w)
		return
	}
	w.ready <- struct{}{}
}

// alarm is a timer that can be brought forward. It fires at the earliest time asked for since it last fired, or a little
// earlier than what is wanted by then: whoever it wakes looks again. Its owner's mutex guards it.
type alarm struct {
	timer clockwork.Timer
	due   time.Duration // 0: not set
}

// set makes the alarm ring at the given time, unless it rings earlier anyway. It does not block.
func (a *alarm) set(clock clockwork.Clock, now, at time.Duration, ring func()) {
	at = max(at, 1) // 0 is "not set"
	if a.due != 0 && a.due <= at {
		return
	}
	a.due = at
	if a.timer == nil {
		a.timer = clock.AfterFunc(at-now, ring)
		return
	}
	a.timer.Stop()
	a.timer.Reset(at - now)
}

// rang has to be called first by what the alarm calls.
func (a *alarm) rang() { a.due = 0 }

// stop makes the alarm forget its time.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.due = 0
}

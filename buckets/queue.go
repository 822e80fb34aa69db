package buckets

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// waiter is an ask that has to wait, in the queue of a bucket or in one of its sub-limits.
//
//	queued    until it is granted, refused or withdrawn
//	answered  it is in no queue any more, and its caller has been told, or will be
//	withdrawn it left by itself and is in no queue any more
//
// There may be hundreds of thousands of them, so it keeps nothing that can be had from its request.
type waiter struct {
	fifo.Element[*waiter]
	ask
	bucket   atomic.Pointer[RESTBucket] // changed only under the locks of both the old and the new one
	subLimit *subLimit                  // whose only request under way it is, nil if none
	ticket   Ticket                     // its place in the queue of all processes, 0 if there is none

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

// queue is what a bucket needs only while somebody waits for it, or while one of its requests is special.
type queue struct {
	waiting   fifo.Queue[*waiter]
	alarm     alarm
	subLimits map[uint64]*subLimit
	ordered   int           // ordered requests in flight
	overdue   time.Duration // when the first of those who wait will have waited too long, as far as anybody looked; 0: not known
}

// open returns the queue, creating it if need be.
func (b *RESTBucket) open() *queue {
	if b.queue == nil {
		b.queue = &queue{}
		b.group.authentication.queueOpened(b)
	}
	return b.queue
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

// subLimit is where the requests of one key wait for a hidden limit on what their bodies ask for, while others of the same
// bucket pass. It exists from the 429 that revealed the limit until its hold has ended and nobody waits any more.
//
// How much the limit allows is not known, so after the hold its requests go one at a time, each when the one before has
// succeeded.
type subLimit struct {
	hold     ratelimits.Throttle
	refusals ratelimits.Refusals
	waiting  fifo.Queue[*waiter]
	oneOut   bool // one of its requests is back in the bucket's queue, or in flight
}

// subLimitOf returns the sub-limit of an ask, nil if there is none.
func (q *queue) subLimitOf(a *ask) *subLimit { return q.subLimits[a.request.subLimitKey] }

// blocks reports that an ask has to go behind others. Whether it belongs into a sub-limit can be told only by its key.
func (q *queue) blocks(a *ask) bool {
	return q.waiting.Len() > 0 || len(q.subLimits) > 0 && (a.request.subLimitKey == 0 || q.subLimitOf(a) != nil)
}

// divert puts a waiter of the queue into its sub-limit, and reports whether it has one. The one whose turn it is passes, unless
// the sub-limit is held again.
func (q *queue) divert(now time.Duration, w *waiter) bool {
	if len(q.subLimits) == 0 {
		return false
	}
	if w.subLimit != nil {
		if w.subLimit.hold.Wait(now) == 0 {
			return false
		}
		w.subLimit.oneOut, w.subLimit = false, nil
	}
	s := q.subLimitOf(&w.ask)
	if s == nil {
		return false
	}
	q.waiting.Remove(&w.Element)
	w.bucket.Load().link.leave(now, w)
	s.waiting.Insert(&w.Element)
	return true
}

// openSubLimits lets the first request of each sub-limit whose hold has ended back into the queue, where it stands according to when
// it arrived, and forgets sub-limits that nobody needs. It returns when the next sub-limit opens, 0 if none will by itself.
func (q *queue) openSubLimits(now time.Duration) (opens time.Duration) {
	for key, s := range q.subLimits {
		switch head := s.waiting.Head(); {
		case s.hold.Wait(now) > 0:
			if opens == 0 || s.hold.Until() < opens {
				opens = s.hold.Until()
			}
		case s.oneOut:
		case head == nil:
			delete(q.subLimits, key)
		default:
			w := head.Value
			s.waiting.Remove(head)
			s.oneOut, w.subLimit = true, s
			q.waiting.Insert(head)
			w.bucket.Load().link.join(now, w)
		}
	}
	return opens
}

// subLimitWait returns how long the hold of an ask's sub-limit lasts, 0 if it has none.
func (q *queue) subLimitWait(now time.Duration, a *ask) time.Duration {
	if s := q.subLimitOf(a); s != nil {
		return s.hold.Wait(now)
	}
	return 0
}

// leaveSubLimit takes a waiter out of the sub-limit in which it waits.
func (q *queue) leaveSubLimit(w *waiter) bool {
	s := q.subLimitOf(&w.ask)
	return s != nil && s.waiting.Remove(&w.Element)
}

// subLimit returns the sub-limit of a key, creating it if need be.
func (q *queue) subLimit(key uint64) *subLimit {
	if q.subLimits == nil {
		q.subLimits = make(map[uint64]*subLimit)
	}
	if q.subLimits[key] == nil {
		q.subLimits[key] = &subLimit{}
	}
	return q.subLimits[key]
}

// divertAll puts all who wait in the queue and have a sub-limit into it.
func (q *queue) divertAll(now time.Duration) {
	for e := q.waiting.Head(); e != nil; {
		w := e.Value
		e = e.Next()
		q.divert(now, w)
	}
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

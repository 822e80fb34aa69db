package buckets

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// above is what stands above buckets: a gate (edge, global limit), or a declared limit. A request leaves when its bucket and all that stand
// above it let it. All methods but enqueue and waitError are called with the line's lock held.
type above interface {
	// takeFirst takes a permit for the first in line, where so many wait, or returns how long to wait for one at most. known is false if
	// only an outcome can tell, or other processes.
	takeFirst(now time.Duration, waiting int) (p gatePermits, wait time.Duration, known bool)
	// next returns when to ask again, and false if only the others can tell.
	next(now time.Duration) (at time.Duration, known bool)
	// needs reports that an ask needs a permit.
	needs(a *ask) bool
	// counted is called when who waits has changed.
	counted(now time.Duration)
	// declared reports that it is a declared limit.
	declared() bool
	// enqueue lets a queue stand in line that was refused a permit. Its bucket's lock is held.
	enqueue(now time.Duration, q *queue)
	// waitError returns what all are told who wait for it, if that is how it is when other processes cannot be asked.
	waitError(now time.Duration) error
}

// line is the queues that stand before a gate or a declared limit, each at most once. Groups take turns; inside of a group, before a gate, so
// do the queues, one request each, so that a long queue does not hold up the others; before a declared limit the order is that of arrival. A queue
// in which nobody waits any more leaves.
type line struct {
	manager *RESTBucketManager
	above   above

	serving sync.Mutex // held by whoever serves the line
	mu      sync.Mutex // of all that the line belongs to, too
	queues  fifo.Turns[*queue]
	waiting int  // requests in the queues
	tells   bool // other processes are told when each of them arrived
	latest  time.Duration
	alarm   alarm
}

// place is that of a queue in line.
type place struct {
	fifo.Element[*queue]
	waiting     int             // how many waited in the queue when they were counted last
	first, last time.Duration   // when the first of them arrived, and the last
	since       time.Duration   // when the queue joined
	arrivals    []time.Duration // when those arrived who wait, the first ones of very many; only if others are told
}

// join lets a queue stand in line. Its bucket's lock is held, and the line's.
func (l *line) join(now time.Duration, q *queue) {
	q.bucket.queues.ready.Remove(&q.turn, q.key.group)
	q.line = l
	q.bucket.queues.recount(q)
	p := &q.place
	p.Value, p.since, p.waiting = q, now, 0
	l.measure(q)
	if p.Arrived = p.first; !l.above.declared() {
		l.latest++
		p.Arrived = l.latest
	}
	if q.passed == l {
		l.queues.Return(&p.Element)
	} else {
		l.queues.Insert(&p.Element, q.key.group, q.weight)
	}
	l.above.counted(now)
	l.moveOn(now)
}

// measure takes in who waits in a queue, of whom there is somebody.
func (l *line) measure(q *queue) {
	p, n := &q.place, q.wantedInLine()
	l.waiting += n - p.waiting
	p.waiting, p.first, p.last = n, q.waiting.Head().Arrived, q.waiting.Tail().Arrived
	if !l.tells {
		return
	}
	p.arrivals = p.arrivals[:0]
	for w := range q.waiters {
		if len(p.arrivals) == min(n, mostTold) {
			break
		}
		p.arrivals = append(p.arrivals, w.Arrived)
	}
}

// wantedInLine returns how many of the queue wait for what is above: of a sub-limit one, as they go one at a time.
func (q *queue) wantedInLine() int {
	if q.subLimit {
		return 1
	}
	return q.waiting.Len()
}

// count is told that who waits in a queue has changed. It reports whether the queue still stands in line, or is about to be served: not if
// nobody waits in it any more, or the first does not need a permit. The bucket's lock is held.
func (l *line) count(now time.Duration, q *queue) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &q.place
	if !p.Queued() {
		return true
	}
	defer l.above.counted(now)
	head := q.waiting.Head()
	if head == nil || !l.above.needs(&head.Value.ask) {
		l.remove(q)
		return false
	}
	if l.measure(q); l.above.declared() && p.Arrived != p.first {
		l.queues.Move(&p.Element, p.first, q.key.group)
	}
	return true
}

// moveOn lets the line move when it can. The lock is held.
func (l *line) moveOn(now time.Duration) {
	if l.queues.Len() == 0 {
		return
	}
	if at, known := l.above.next(now); known {
		l.wakeAt(now, at)
	}
}

// wakeAt lets the line move at the given time. The lock is held.
func (l *line) wakeAt(now, at time.Duration) {
	if !l.manager.closed() {
		l.alarm.set(l.manager.settings.clock, now, at, l.ring)
	}
}

func (l *line) ring() {
	l.mu.Lock()
	l.alarm.rang()
	l.mu.Unlock()
	l.serve()
}

// serve hands permits to the queues in line, one after the other, as long as there are any. One does at a time: when it returns, no permit
// is on its way to a queue that another one took out of the line.
func (l *line) serve() {
	l.serving.Lock()
	defer l.serving.Unlock()
	for {
		l.mu.Lock()
		now := l.manager.now()
		if l.queues.Len() == 0 {
			l.mu.Unlock()
			return
		}
		p, wait, known := l.above.takeFirst(now, l.waiting)
		if wait > 0 {
			l.wakeAt(now, now+wait)
		}
		if wait > 0 || !known {
			l.mu.Unlock()
			return
		}
		q := l.pop()
		l.mu.Unlock()
		q.bucket.serve(q, p)
		l.mu.Lock()
		l.above.counted(l.manager.now()) // not before, as others of the queue may have permits, too
		l.mu.Unlock()
	}
}

// pop takes the first queue out, nil if there is none. The lock is held.
func (l *line) pop() *queue {
	head := l.queues.Head()
	if head == nil {
		return nil
	}
	l.queues.Spend()
	l.remove(head.Value)
	return head.Value
}

func (l *line) remove(q *queue) {
	l.queues.Remove(&q.place.Element, q.key.group)
	l.waiting -= q.place.waiting
}

// end stops the line: those in it are told by their buckets. The lock is held.
func (l *line) end() {
	l.alarm.stop()
	for l.pop() != nil {
	}
}

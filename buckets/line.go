package buckets

import (
	"math"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/fifo"
)

// above is what stands above buckets: a gate (edge, global limit), or a declared limit. A request leaves when its bucket and all that stand
// above it let it. All methods but enqueue and waitError are called with the line's lock held.
type above interface {
	// enter takes a permit for the first in line, where so many wait, or returns how long to wait for one at most. known is false if
	// only an outcome can tell, or other processes.
	enter(now time.Duration, waiting int) (p gatePermits, wait time.Duration, known bool)
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

	serving sync.Mutex // held by whoever serves the line; taken before the locks of buckets
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

// before returns how many get a permit before an ask of a queue, nil if that does not exist, with so many ahead in it. The lock is held.
func (l *line) before(a *ask, q *queue, ahead int) int {
	group := a.group
	if q != nil {
		group = q.key.group // those of a sub-limit are in none
	}
	others, own := l.waiting, l.queues.Group(group)
	if q != nil && q.line == l && q.place.Queued() {
		others -= q.place.waiting
	} else {
		q = nil // it does not stand here
	}
	n := ahead // before it in its group
	switch {
	case own == nil:
	case l.above.declared():
		n += earlier(own, q, ahead)
	case q == nil:
		n += (ahead + 1) * own.Len()
	default:
		n += max(own.Before(q.place.Arrived)-1, 0) + ahead*(own.Len()-1) // it may have returned before all of them
	}
	of, ok := l.queues.Ahead(group, n, func(q *queue) int { return q.place.waiting })
	if !ok { // its group's turn is after those of all others
		of = (n/max(int(a.weight), 1) + 1) * l.queues.Weights()
	}
	return min(ahead+others, n+of)
}

// mostLookedAt bounds how many queues are looked at to count those ahead.
const mostLookedAt = 100

// earlier returns about how many arrived before the one with so many ahead in its queue, nil if that is not in line, in the other queues that
// are. If there are very many queues, the rest counts like those that were looked at.
func earlier(queues *fifo.Queue[*queue], q *queue, ahead int) (n int) {
	arrived := time.Duration(math.MaxInt64)
	if q != nil && ahead < q.place.waiting {
		arrived = q.place.arrival(ahead)
	}
	looked := 0
	for e := queues.Head(); e != nil && e.Value.place.first < arrived; e = e.Next() {
		if looked++; looked > mostLookedAt {
			return n * queues.Len() / mostLookedAt
		}
		if e.Value != q {
			n += e.Value.place.arrivedBefore(arrived)
		}
	}
	return n
}

// arrival returns about when the one with so many ahead of it arrived, as if all had come one after the other at the same pace.
func (p *place) arrival(ahead int) time.Duration {
	return p.first + time.Duration(float64(p.last-p.first)*float64(ahead)/float64(max(p.waiting-1, 1)))
}

// arrivedBefore returns about how many arrived before a time, which is later than that of the first.
func (p *place) arrivedBefore(at time.Duration) int {
	if at > p.last {
		return p.waiting
	}
	return 1 + int(float64(p.waiting-1)*float64(at-p.first)/float64(p.last-p.first))
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
		p, wait, known := l.above.enter(now, l.waiting)
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

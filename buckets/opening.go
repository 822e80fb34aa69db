package buckets

import (
	"cmp"
	"time"
)

// opening records what the requests of a bucket, or of one of its queues, wait for, and which wait ended last.
type opening struct {
	closed   WaitsFor      // what the first request waited for when it was last examined; empty if it could pass
	opened   WaitsFor      // what the requests waited for until openedAt; empty: no wait has ended yet
	openedAt time.Duration // when that wait was found to be over
}

// stop records that a request has to wait.
func (o *opening) stop(reason WaitsFor) { o.closed = reason }

// pass records that a request no longer has to wait.
func (o *opening) pass(now time.Duration) {
	if o.closed != "" {
		o.opened, o.openedAt, o.closed = o.closed, now, ""
	}
}

// stopAt records why the bucket itself lets no request leave.
func (b *bucket) stopAt(now time.Duration, a *ask) {
	b.queues.opening.stop(b.reason(now, a, b.predictPermit(now, 0)))
}

// stopBefore records which limit above its bucket a queue waits for.
func (q *queue) stopBefore(l *line) {
	switch l.limit.(type) {
	case *declaredLimit:
		q.opening.stop(WaitsForDeclared)
	case edgeLimit:
		q.opening.stop(WaitsForEdge)
	case globalLimit:
		q.opening.stop(WaitsForGlobal)
	}
}

// waitsStill returns what a request was waiting for when it left the queue without a permit.
func (b *bucket) waitsStill(q *queue, w *waiter) WaitsFor {
	return cmp.Or(q.opening.closed, b.queues.opening.closed, w.reason)
}

// hasWaitedFor returns what a request waited for last before it leaves the queue with a permit.
func (b *bucket) hasWaitedFor(q *queue, w *waiter) WaitsFor {
	last := &b.queues.opening
	if o := &q.opening; o.opened != "" && o.openedAt >= last.openedAt {
		// On a tie the queue's limit opened later, because the bucket's wait is often found to be over only some time after
		// its end.
		last = o
	}
	if last.opened == "" || last.openedAt < w.asked() {
		return w.reason
	}
	return last.opened
}

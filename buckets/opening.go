package buckets

import (
	"cmp"
	"time"
)

// opening records what keeps requests waiting, and what did so last, of a bucket or of one of its queues.
type opening struct {
	closed   WaitsFor      // what the first request waited for at the latest look; empty if it could pass
	opened   WaitsFor      // what the requests waited for that could leave at openedAt; empty if nothing yet
	openedAt time.Duration // when a look first found it open
}

// stop records that a request has to wait.
func (o *opening) stop(reason WaitsFor) { o.closed = reason }

// pass records that a request need not wait any more.
func (o *opening) pass(now time.Duration) {
	if o.closed != "" {
		o.opened, o.openedAt, o.closed = o.closed, now, ""
	}
}

// stopAt records why the bucket itself lets nothing leave.
func (b *bucket) stopAt(now time.Duration, a *ask) {
	b.queues.opening.stop(b.reason(now, a, b.predictPermit(now, 0)))
}

// stopBefore records that a queue waits for what stands above its bucket.
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

// waitsStill returns what a request of a queue waits for when it leaves without a permit.
func (b *bucket) waitsStill(q *queue, w *waiter) WaitsFor {
	return cmp.Or(q.opening.closed, b.queues.opening.closed, w.reason)
}

// hasWaitedFor returns what opened last of all that a request of a queue has waited for, which leaves with a permit.
func (b *bucket) hasWaitedFor(q *queue, w *waiter) WaitsFor {
	last := &b.queues.opening
	if o := &q.opening; o.opened != "" && o.openedAt >= last.openedAt {
		last = o // a line serves a queue at once, a window is looked at later
	}
	if last.opened == "" || last.openedAt < w.asked() {
		return w.reason
	}
	return last.opened
}

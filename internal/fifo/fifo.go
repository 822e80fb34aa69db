// Package fifo is the queue of those who wait: first come, first served, and anyone can leave from the middle.
//
// It is a doubly linked list whose elements are embedded in what waits, so that entering and leaving allocate nothing and
// take the same time however long the queue is. The order is that of arrival, not that of insertion: one who was refused
// comes back to the place it had.
package fifo

import (
	"cmp"
	"time"
)

// Element is one place in a queue. Embed it in what waits. The zero value is in no queue.
type Element[T any] struct {
	// Value is what waits, usually a pointer to the struct around the element.
	Value T
	// Arrived orders the queue. It must not change while the element is queued.
	Arrived time.Duration

	next, previous *Element[T]
	queue          *Queue[T]
}

// Queued reports whether the element is in a queue.
func (e *Element[T]) Queued() bool { return e.queue != nil }

// Next returns the element behind e, nil if e is the last one.
func (e *Element[T]) Next() *Element[T] { return e.next }

// Queue is ready for use as a zero value. It is not safe for concurrent use.
type Queue[T any] struct {
	head, tail *Element[T]
	finger     *Element[T] // where somebody entered or left last, nil only if the queue is empty
	length     int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return q.length }

// Head returns the first element, nil if there is none.
func (q *Queue[T]) Head() *Element[T] { return q.head }

// Insert puts e behind all that arrived no later than it did. It takes no search for one that arrived last, as almost everybody
// does, or first; and it goes on from where the one before was inserted, so that two queues are merged in one pass.
func (q *Queue[T]) Insert(e *Element[T]) {
	if e.queue != nil {
		panic("fifo: element is in a queue already")
	}
	before := q.before(e.Arrived)
	e.queue, e.previous = q, before
	if before == nil {
		e.next, q.head = q.head, e
	} else {
		e.next, before.next = before.next, e
	}
	if e.next == nil {
		q.tail = e
	} else {
		e.next.previous = e
	}
	q.length++
	q.finger = e
}

// before returns the last element that arrived no later than the given time, nil if there is none.
func (q *Queue[T]) before(arrived time.Duration) *Element[T] {
	switch {
	case q.head == nil || q.head.Arrived > arrived:
		return nil
	case q.tail.Arrived <= arrived:
		return q.tail
	}
	at := q.finger
	for at.Arrived > arrived {
		at = at.previous
	}
	for at.next.Arrived <= arrived { // the tail is later
		at = at.next
	}
	return at
}

// Remove takes e out, wherever it stands, and reports whether it was in q.
func (q *Queue[T]) Remove(e *Element[T]) bool {
	if e.queue != q {
		return false
	}
	if e.previous == nil {
		q.head = e.next
	} else {
		e.previous.next = e.next
	}
	if e.next == nil {
		q.tail = e.previous
	} else {
		e.next.previous = e.previous
	}
	if q.finger == e {
		q.finger = cmp.Or(e.previous, e.next)
	}
	e.next, e.previous, e.queue = nil, nil, nil
	q.length--
	return true
}

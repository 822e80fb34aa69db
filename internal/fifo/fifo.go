// Package fifo is the queue of those who wait: first come, first served, and anyone can leave from the middle.
//
// It is a doubly linked list whose elements are embedded in what waits, so that entering and leaving allocate nothing and
// take the same time however long the queue is. The order is that of arrival, not that of insertion: one who was refused
// comes back to the place it had.
package fifo

import "time"

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
	length     int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return q.length }

// Head returns the first element, nil if there is none.
func (q *Queue[T]) Head() *Element[T] { return q.head }

// Insert puts e behind all that arrived no later than it did, and returns how many others it passed. Whoever arrives last,
// as almost everybody does, is inserted without a search.
func (q *Queue[T]) Insert(e *Element[T]) (passed int) {
	if e.queue != nil {
		panic("fifo: element is in a queue already")
	}
	before := q.tail
	for before != nil && before.Arrived > e.Arrived {
		before = before.previous
		passed++
	}
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
	return passed
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
	e.next, e.previous, e.queue = nil, nil, nil
	q.length--
	return true
}

// Package fifo implements a queue of waiters, which are served in the order of their arrival. A waiter can leave the
// queue from any place.
//
// The queue is a doubly linked list whose elements are embedded in the waiters. So insertion and removal allocate no
// memory. Except for rare searches, insertion and removal take no longer in a long queue than in a short one. Elements
// are ordered by their time of arrival, so a waiter that is inserted again returns to its old place.
package fifo

import "time"

// Element is a waiter's place in a queue. Embed it in the waiter. The zero value is in no queue.
type Element[T any] struct {
	// Value is the waiter, usually a pointer to the struct that contains the element.
	Value T
	// Arrived is the time of arrival, by which the queue is ordered. It must not change while the element is in a queue.
	Arrived time.Duration

	next, previous *Element[T]
	queue          *Queue[T]
}

// Queued reports whether the element is in a queue.
func (e *Element[T]) Queued() bool { return e.queue != nil }

// Next returns the element after e, nil if e is the last one.
func (e *Element[T]) Next() *Element[T] { return e.next }

// Queue is a queue of elements. The zero value is an empty queue. A Queue is not safe for concurrent use.
type Queue[T any] struct {
	head, tail *Element[T]
	length     int

	// finger is the element that the latest search found. Of elements with the same time of arrival, it is the last one.
	// finger is nil before the first search. rank is the number of elements up to and including finger.
	finger *Element[T]
	rank   int
}

// Len returns the number of elements.
func (q *Queue[T]) Len() int { return q.length }

// Head returns the first element, nil if there is none.
func (q *Queue[T]) Head() *Element[T] { return q.head }

// Tail returns the last element, nil if there is none.
func (q *Queue[T]) Tail() *Element[T] { return q.tail }

// All yields all values in order. The element of a yielded value may be removed from the queue.
func (q *Queue[T]) All(yield func(T) bool) {
	for e := q.head; e != nil; {
		value := e.Value
		if e = e.next; !yield(value) {
			return
		}
	}
}

// Before returns how many elements arrived no later than the given time.
func (q *Queue[T]) Before(arrived time.Duration) int {
	_, rank := q.search(arrived)
	return rank
}

// After returns the first element that arrived later than the given time, and how many elements are before it. e is nil
// if no element arrived later.
func (q *Queue[T]) After(arrived time.Duration) (e *Element[T], before int) {
	if e, before = q.search(arrived); e != nil {
		return e.next, before
	}
	return q.head, 0
}

// Insert puts e after all elements that arrived no later than e. If e arrived after all others, as most elements do, or
// before all others, Insert needs no search. Otherwise the search begins at the head, at the tail, or where the latest
// search ended, whichever is nearest in time. So two queues can be merged in one pass. If several elements in turn are
// inserted a little before the tail, each is inserted quickly.
func (q *Queue[T]) Insert(e *Element[T]) {
	if e.queue != nil {
		panic("fifo: element is in a queue already")
	}
	before, _ := q.search(e.Arrived)
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
	if q.finger != nil && e.Arrived <= q.finger.Arrived {
		q.rank++
		if e.Arrived == q.finger.Arrived {
			q.finger = e
		}
	}
}

// search returns the last element that arrived no later than the given time, and the number of elements up to and
// including that element. If there is no such element, it returns nil and 0.
func (q *Queue[T]) search(arrived time.Duration) (at *Element[T], rank int) {
	switch {
	case q.head == nil || q.head.Arrived > arrived:
		return nil, 0
	case q.tail.Arrived <= arrived:
		return q.tail, q.length
	}
	at, rank = q.head, 1
	distance := arrived - at.Arrived
	if d := q.tail.Arrived - arrived; d < distance {
		at, rank, distance = q.tail, q.length, d
	}
	if f := q.finger; f != nil && max(f.Arrived-arrived, arrived-f.Arrived) < distance {
		at, rank = f, q.rank
	}
	for at.Arrived > arrived {
		at, rank = at.previous, rank-1
	}
	for at.next.Arrived <= arrived { // the tail arrived later, so at.next is not nil
		at, rank = at.next, rank+1
	}
	q.finger, q.rank = at, rank
	return at, rank
}

// Remove removes e from any place in q, and reports whether e was in q.
func (q *Queue[T]) Remove(e *Element[T]) bool {
	if e.queue != q {
		return false
	}
	if f := q.finger; f != nil && e.Arrived <= f.Arrived {
		q.rank--
		if e == f {
			q.finger = e.previous
		}
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

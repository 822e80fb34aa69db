package shared

import (
	"container/list"
	"time"

	"github.com/ratelight/ratelight/buckets"
)

// ticket is the place of one request of this process.
//
//	waiting  in the queue: of this process, and, once it was said, of all
//	granted  may be sent; goes back to the head of the queue if nobody takes it
//	flying   was sent
//	ended    its outcome is known here, and not yet at the server
type ticket struct {
	id     buckets.Ticket
	number uint64 // its name at the server; a new one each time it is queued
	stage  stage
	front  bool // queued ahead of those who came in the ordinary way
	said   bool // the server knows that it waits, or flies
	window int64
	since  time.Duration // when it was granted, or sent
	place  *list.Element
}

type stage uint8

const (
	waiting stage = iota
	granted
	flying
	ended
)

// line is a queue of tickets: those who came to the front in their order, then the others.
type line struct {
	list.List
	lastFront *list.Element
}

func (l *line) push(t *ticket) {
	switch {
	case !t.front:
		t.place = l.PushBack(t)
		return
	case l.lastFront == nil:
		t.place = l.PushFront(t)
	default:
		t.place = l.InsertAfter(t, l.lastFront)
	}
	l.lastFront = t.place
}

func (l *line) remove(t *ticket) {
	if t.place == l.lastFront {
		l.lastFront = t.place.Prev()
	}
	l.Remove(t.place)
	t.place = nil
}

func (l *line) first() *ticket {
	if e := l.Front(); e != nil {
		return e.Value.(*ticket)
	}
	return nil
}

// numbers are the names that tickets were given, in their order.
type numbers []uint64

// lowest returns the lowest number that is alive, next if none is.
func (n *numbers) lowest(alive map[uint64]*ticket, next uint64) uint64 {
	for len(*n) > 0 {
		if _, ok := alive[(*n)[0]]; ok {
			return (*n)[0]
		}
		*n = (*n)[1:]
	}
	return next
}

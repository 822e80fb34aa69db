package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
)

// ticket is the place of one request of this process.
//
//	waiting  in the queue: of this process, and, once it was said, of all
//	granted  may be sent; goes back into the queue if nobody takes it
//	flying   was sent
//	ended    its outcome is known here, and not yet at the server
type ticket struct {
	fifo.Element[*ticket] // in the queue of those who wait, or of those who were granted; by when the request arrived

	id     buckets.Ticket
	number uint64 // its name at the server; a new one each time it is queued
	stage  stage
	said   bool // the server knows that it waits, or flies
	window int64
	since  time.Duration // when it was granted, or sent
}

type stage uint8

const (
	waiting stage = iota
	granted
	flying
	ended
)

func newTicket(s stage) *ticket {
	t := &ticket{stage: s}
	t.Value = t
	return t
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

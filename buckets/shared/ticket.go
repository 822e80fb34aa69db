package shared

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/fifo"
	"github.com/ratelight/ratelight/ratelimits"
)

// ticket is the place of one request of this process.
//
//	waiting  in the queue: of this process, and, if it is one of the first, of all
//	granted  may be sent; goes back into the queue if nobody takes it
//	flying   was sent
//	ended    its outcome is known here, and not yet at the server
type ticket struct {
	fifo.Element[*ticket] // in the queue of those who wait, or of those who were granted; by when the request arrived

	id      buckets.Ticket
	number  uint64 // its name at the server; a new one each time it is queued
	stage   stage
	known   bool          // the server knows its place
	since   time.Duration // when it was granted, or sent
	outcome outcome       // of one that has ended
}

type stage uint8

const (
	waiting stage = iota
	granted
	flying
	ended
)

// outcome is what became of a request.
type outcome struct {
	at       time.Duration
	unsent   bool
	response ratelimits.Response
}

func newTicket(s stage) *ticket {
	t := &ticket{stage: s}
	t.Value = t
	return t
}

package report

import (
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Log is what happened in a run, request by request. All times are counted from its beginning.
type Log struct {
	// Lasted is the time of the last entry.
	Lasted   time.Duration
	Passages []Passage
	// Calls are the requests that the simulator processed, in that order. It is empty for any other server.
	Calls []Call
	// Limits are the simulator's that saw a request, in the order of the first.
	Limits []*Limit
	// Blocks are times in which the simulator refused everything.
	Blocks []Block
}

// Passage is one request's way through the client.
type Passage struct {
	HandedOver, Done time.Duration
	Sends            []Send
}

// Send is one time that a request was sent.
type Send struct {
	At, Back time.Duration
	Status   int // 0: no response
	Class    ratelimits.Class
}

// Call is one request that the simulator processed.
type Call struct {
	At        time.Duration
	Operation string
	Major     string
	Bucket    *Limit // nil if it did not come so far
	Use       int    // its place in Bucket.Uses, -1 if there is none
	Status    int    // 0: the connection broke
	Class     discordsim.Class
	Verdict   discordsim.Verdict
	Because   string
}

// Limit is one limit of the simulator.
type Limit struct {
	Class       discordsim.Class // ClassUser: the bucket of a route
	Hash, Major string
	Quota       discordsim.Quota // as it was last
	Uses        []Use
}

// Use is one request at a limit.
type Use struct {
	At      time.Duration
	Foreign bool // somebody else's
	Taken   bool // let through and counted
	// Used is how many requests the limit counted right afterwards, and ResetAfter how long until it counted none.
	Used       int
	ResetAfter time.Duration
}

// Block is a time in which the simulator refused everything.
type Block struct{ From, Until time.Duration }

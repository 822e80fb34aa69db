// Package trace records a run, request by request: on the client's side what a meter saw of each, on the server's side what
// the simulator did with it, and what that did to its limits. It costs a few dozen bytes and a lock for each of these.
//
// All times are counted from the beginning of the run.
package trace

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Trace records what its methods are told. They are safe for concurrent use. The zero value is ready.
type Trace struct {
	mu    sync.Mutex
	start time.Time
	log   Log
	index map[limitKey]*Limit
	// latest is the bucket that the request has used whose event is about to come.
	latest *Limit
}

// Log is what happened in a run.
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

type limitKey struct {
	class       discordsim.Class
	hash, major string
}

// Start sets the beginning of the run. Call it before anything happens.
func (t *Trace) Start(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start = at
}

// Log returns what happened so far. It shares its memory with the trace: read it when the run is over.
func (t *Trace) Log() Log {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.log
}

// since is the time of an entry in the log.
func (t *Trace) since(at time.Time) time.Duration {
	d := max(at.Sub(t.start), 0)
	t.log.Lasted = max(t.log.Lasted, d)
	return d
}

// Passage takes in what a meter saw; see [meter.Meter.Observe].
func (t *Trace) Passage(p meter.Passage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	passage := Passage{HandedOver: t.since(p.HandedOver), Done: t.since(p.Done)}
	for _, send := range p.Sends {
		passage.Sends = append(passage.Sends, Send{t.since(send.At), t.since(send.Back), send.Status, send.Class})
	}
	t.log.Passages = append(t.log.Passages, passage)
}

// Simulator has a simulator tell this trace what happens. Its blocks count from the beginning of the run.
func (t *Trace) Simulator(config *discordsim.Config) {
	config.Observe, config.ObserveLimit = t.event, t.use
	for _, block := range config.Blocks {
		t.log.Blocks = append(t.log.Blocks, Block(block))
	}
}

func (t *Trace) event(e discordsim.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := Call{
		At: t.since(e.At), Operation: e.Operation, Major: e.Major, Use: -1,
		Status: e.Status, Class: e.Class, Verdict: e.Verdict, Because: e.Because,
	}
	if e.Hash != "" {
		call.Bucket = t.limit(limitKey{discordsim.ClassUser, e.Hash, e.Major})
		if t.latest == call.Bucket {
			call.Use = len(call.Bucket.Uses) - 1
		}
	}
	t.latest = nil
	t.log.Calls = append(t.log.Calls, call)
}

func (t *Trace) use(u discordsim.LimitUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.limit(limitKey{u.Class, u.Hash, u.Major})
	limit.Quota = u.Quota
	if u.Class == discordsim.ClassUser && u.Who == discordsim.Own {
		t.latest = limit
	}
	limit.Uses = append(limit.Uses, Use{
		At: t.since(u.At), Foreign: u.Who == discordsim.Foreign, Taken: u.Taken,
		Used: u.State.Limit - u.State.Remaining, ResetAfter: u.State.ResetAfter,
	})
}

// limit finds a limit, or makes it.
func (t *Trace) limit(key limitKey) *Limit {
	if limit := t.index[key]; limit != nil {
		return limit
	}
	limit := &Limit{Class: key.class, Hash: key.hash, Major: key.major}
	if t.index == nil {
		t.index = make(map[limitKey]*Limit)
	}
	t.index[key] = limit
	t.log.Limits = append(t.log.Limits, limit)
	return limit
}

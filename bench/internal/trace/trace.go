// Package trace records a run, request by request: on the client's side what a meter saw of each, on the server's side what
// the simulator did with it, and what that did to its limits. It costs a few dozen bytes and a lock for each of these.
//
// All times are counted from the beginning of the run.
package trace

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
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

// What is recorded is shown by package report.
type (
	Log     = report.Log
	Passage = report.Passage
	Send    = report.Send
	Call    = report.Call
	Limit   = report.Limit
	Use     = report.Use
	Block   = report.Block
)

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
		passage.Sends = append(passage.Sends, Send{At: t.since(send.At), Back: t.since(send.Back), Status: send.Status, Class: send.Class})
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

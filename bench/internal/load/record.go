package load

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Trace records a run, request by request: on the client's side what a meter saw of each, on the server's side what the simulator did
// with it, and what that did to its limits. It costs a few dozen bytes and a lock for each of these. It is safe for concurrent use. A nil
// trace records nothing.
type Trace struct {
	mu    sync.Mutex
	start time.Time
	log   report.Log
	index map[limitKey]*report.Limit
	// latest is the bucket that the request has used whose event is about to come.
	latest *report.Limit
}

// NewTrace returns a trace, nil if none is wanted.
func NewTrace(wanted bool) *Trace {
	if !wanted {
		return nil
	}
	return &Trace{}
}

type limitKey struct {
	class       discordsim.Class
	hash, major string
}

// Start sets the beginning of the run, from which all times are counted. Call it before anything happens.
func (t *Trace) Start(at time.Time) {
	if t != nil {
		t.start = at
	}
}

// Log returns what happened so far, nil if nothing is recorded. It shares its memory with the trace: read it when the run is over.
func (t *Trace) Log() *report.Log {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.log
	return &log
}

func (t *Trace) since(at time.Time) time.Duration { return max(at.Sub(t.start), 0) }

// Passage takes in one request's way through the client.
func (t *Trace) Passage(p report.Passage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log.Lasted = max(t.log.Lasted, p.Done)
	t.log.Passages = append(t.log.Passages, p)
}

// Simulator has a simulator tell this trace what happens, if there is one. Its blocks count from the beginning of the run.
func (t *Trace) Simulator(config *discordsim.Config) {
	if t == nil {
		return
	}
	config.Observe, config.ObserveLimit = t.event, t.use
	for _, block := range config.Blocks {
		t.log.Blocks = append(t.log.Blocks, report.Block(block))
	}
}

func (t *Trace) event(e discordsim.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := report.Call{
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
	t.log.Lasted = max(t.log.Lasted, call.At)
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
	limit.Uses = append(limit.Uses, report.Use{
		At: t.since(u.At), Foreign: u.Who == discordsim.Foreign, Taken: u.Taken,
		Used: u.State.Limit - u.State.Remaining, ResetAfter: u.State.ResetAfter,
	})
}

// limit finds a limit, or makes it.
func (t *Trace) limit(key limitKey) *report.Limit {
	if limit := t.index[key]; limit != nil {
		return limit
	}
	limit := &report.Limit{Class: key.class, Hash: key.hash, Major: key.major}
	if t.index == nil {
		t.index = make(map[limitKey]*report.Limit)
	}
	t.index[key] = limit
	t.log.Limits = append(t.log.Limits, limit)
	return limit
}

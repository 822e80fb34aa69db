package report

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Log is what happened in a run, request by request: on the client's side, and what the simulator did with each. Times are counted from
// its start. It costs some hundred bytes and a lock for each request. A nil log records nothing. Write to it concurrently; read it when the
// run is over.
type Log struct {
	Lasted   time.Duration // until the last entry
	Passages []Passage
	Calls    []Call   // that the simulator processed, in that order; none by any other server
	Limits   []*Limit // of the simulator, in the order of the first request that they saw
	Blocks   []discordsim.GlobalBlock

	mu    sync.Mutex
	start time.Time
	index map[limitKey]*Limit
	// latest is the bucket that the request has used whose event is about to come.
	latest *Limit
}

// Passage is one request's way through the client.
type Passage struct {
	HandedOver, Done time.Duration
	Sends            []Send
	GivenUp          bool // its context ended before it had an outcome
}

// Queued is how long it was held back: before it was sent, and from each refusal until the next sending. Round trips are no part of it.
func (p Passage) Queued() (d time.Duration) {
	since := p.HandedOver
	for _, send := range p.Sends {
		d += send.At - since
		since = send.Back
	}
	return d
}

// Send is one time that a request was sent.
type Send struct {
	At, Back time.Duration
	Status   int // 0: no response
	Class    ratelimits.Class
}

// Call is one request that the simulator processed.
type Call struct {
	discordsim.Event
	At     time.Duration
	Bucket *Limit // nil if it did not come so far
	Use    int    // its place in Bucket.Uses, -1 if there is none
}

// Limit is one limit of the simulator, as it was last, and all that it saw.
type Limit struct {
	discordsim.LimitUse
	Uses []Use
}

// Use is one request at a limit.
type Use struct {
	discordsim.LimitUse
	At time.Duration
}

type limitKey struct {
	class       discordsim.Class
	hash, major string
}

// NewLog returns a log, nil if none is wanted.
func NewLog(wanted bool) *Log {
	if !wanted {
		return nil
	}
	return &Log{index: make(map[limitKey]*Limit)}
}

// Start sets the beginning of the run. Call it before anything happens.
func (l *Log) Start(at time.Time) {
	if l != nil {
		l.start = at
	}
}

// Since is a time of the run.
func (l *Log) Since(at time.Time) time.Duration { return max(at.Sub(l.start), 0) }

// Add takes in one request's way through the client.
func (l *Log) Add(p Passage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Lasted = max(l.Lasted, p.Done)
	l.Passages = append(l.Passages, p)
}

// Observe has a simulator tell what happens. Its blocks count from the beginning of the run.
func (l *Log) Observe(config *discordsim.Config) {
	if l != nil {
		config.Observe, config.ObserveLimit, l.Blocks = l.event, l.use, config.Blocks
	}
}

func (l *Log) event(e discordsim.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	call := Call{Event: e, At: l.Since(e.At), Use: -1}
	if e.Hash != "" {
		call.Bucket = l.limit(limitKey{discordsim.ClassUser, e.Hash, e.Major})
		if l.latest == call.Bucket {
			call.Use = len(call.Bucket.Uses) - 1
		}
	}
	l.latest = nil
	l.Lasted = max(l.Lasted, call.At)
	l.Calls = append(l.Calls, call)
}

func (l *Log) use(u discordsim.LimitUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limit(limitKey{u.Class, u.Hash, u.Major})
	limit.LimitUse = u
	if u.Class == discordsim.ClassUser && u.Who == discordsim.Own {
		l.latest = limit
	}
	limit.Uses = append(limit.Uses, Use{LimitUse: u, At: l.Since(u.At)})
}

// limit finds a limit, or makes it.
func (l *Log) limit(key limitKey) *Limit {
	limit := l.index[key]
	if limit == nil {
		limit = &Limit{LimitUse: discordsim.LimitUse{Class: key.class, Hash: key.hash, Major: key.major}}
		l.index[key] = limit
		l.Limits = append(l.Limits, limit)
	}
	return limit
}

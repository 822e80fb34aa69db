package report

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Log records a run request by request: on the client's side, and what the simulator did with each. Times count from
// the start of the run. Each request costs some hundred bytes and a lock. Requests may be recorded concurrently; read
// the fields when the run is over. Start and Observe do nothing on a nil log.
type Log struct {
	Lasted   time.Duration // until the last entry
	Passages []Passage
	Calls    int // requests that the simulator processed; 0 for a real server

	mu       sync.Mutex
	start    time.Time
	blocks   []discordsim.GlobalBlock
	lanes    []*lane // of the simulator's limits, in the order of their first requests
	index    map[limit]*lane
	refusals map[refusal]int
	// used is the bucket of the request whose event comes next, nil if it used none; height is its height then.
	used   *lane
	height float64
}

// Passage is the way of one request through the client.
type Passage struct {
	HandedOver, Done time.Duration
	Sends            []Send
	GivenUp          bool // its context ended before it had an outcome
}

// Queued returns how long the request was held back before its attempts: since the handover or the last response.
func (p Passage) Queued() (d time.Duration) {
	since := p.HandedOver
	for _, send := range p.Sends {
		d += send.At - since
		since = send.Back
	}
	return d
}

// Send is one attempt of a request.
type Send struct {
	At, Back time.Duration
	Status   int // 0: no response
	Class    ratelimits.Class
}

// limit identifies a limit of the simulator. Only buckets have a hash; a limit for all requests has no major.
type limit struct {
	class       discordsim.Class
	hash, major string
}

// refusal says why a request was answered with 429.
type refusal struct{ class, judged, because string }

// NewLog returns a log, nil if none is wanted.
func NewLog(wanted bool) *Log {
	if !wanted {
		return nil
	}
	return &Log{index: make(map[limit]*lane), refusals: make(map[refusal]int)}
}

// Start sets the start of the run. Call it before the first request.
func (l *Log) Start(at time.Time) {
	if l != nil {
		l.start = at
	}
}

// Since returns a time as counted from the start of the run.
func (l *Log) Since(at time.Time) time.Duration { return max(at.Sub(l.start), 0) }

// Add records the way of one request through the client.
func (l *Log) Add(p Passage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Lasted = max(l.Lasted, p.Done)
	l.Passages = append(l.Passages, p)
}

// Observe makes a simulator report to the log. The times of its blocks count from the start of the run.
func (l *Log) Observe(config *discordsim.Config) {
	if l != nil {
		config.Observe, config.ObserveLimit, l.blocks = l.event, l.use, config.Blocks
	}
}

// use draws a request in the lane of a limit. It leaves the client's requests in their buckets to event.
func (l *Log) use(u discordsim.LimitUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, lane := l.Since(u.At), l.lane(limit{u.Class, u.Hash, u.Major})
	lane.quota = u.Quota
	lane.open(at, u.State)
	switch height := lane.height(u.State); {
	case u.Who == discordsim.Own && u.Class == discordsim.ClassUser:
		l.used, l.height = lane, height
	case !u.Taken:
	case u.Who == discordsim.Own:
		lane.mark(at, height, accepted)
	default:
		lane.mark(at, height, foreign)
	}
}

// event draws the outcome of a request in its bucket and, for a 429, in the lane of another limit that refused it.
func (l *Log) event(e discordsim.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.Since(e.At)
	l.Lasted = max(l.Lasted, at)
	l.Calls++
	if e.Hash != "" {
		bucket := l.lane(limit{discordsim.ClassUser, e.Hash, e.Major})
		bucket.operation = cmp.Or(bucket.operation, e.Operation)
		height := bucket.top()
		if l.used == bucket && e.Class == discordsim.ClassNone {
			height = l.height
		}
		bucket.mark(at, height, became(e))
	}
	l.used = nil
	if e.Class == discordsim.ClassNone {
		return
	}
	l.refusals[refusal{e.Class.String(), e.Verdict.String(), e.Because}]++
	for _, major := range slices.Compact([]string{"", e.Major}) {
		if lane := l.index[limit{class: e.Class, major: major}]; lane != nil {
			lane.mark(at, lane.top(), became(e))
		}
	}
}

// lane returns the lane of a limit, which it adds if it is missing.
func (l *Log) lane(of limit) *lane {
	if l.index[of] == nil {
		l.index[of] = &lane{limit: of, counts: make(map[kind]int)}
		l.lanes = append(l.lanes, l.index[of])
	}
	return l.index[of]
}

package report

import (
	"cmp"
	"slices"
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
	Calls    int // that the simulator processed; none by any other server

	mu       sync.Mutex
	start    time.Time
	blocks   []discordsim.GlobalBlock
	lanes    []*lane // of the simulator's limits, in the order of the first request that they saw
	index    map[limit]*lane
	refusals map[refusal]int
	// used is the bucket that the request has used whose event is about to come, and its height then.
	used   *lane
	height float64
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

// limit is one of the simulator. What is no bucket has no hash, and one for everything has no major.
type limit struct {
	class       discordsim.Class
	hash, major string
}

// refusal is why a request was answered with 429.
type refusal struct{ class, judged, because string }

// NewLog returns a log, nil if none is wanted.
func NewLog(wanted bool) *Log {
	if !wanted {
		return nil
	}
	return &Log{index: make(map[limit]*lane), refusals: make(map[refusal]int)}
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
		config.Observe, config.ObserveLimit, l.blocks = l.event, l.use, config.Blocks
	}
}

// use draws what a limit has seen, but for the client's requests in their bucket: what became of these is in the event.
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

// event draws what became of a request: in its bucket, and in the lane of whatever else refused it.
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

// lane finds the lane of a limit, or makes it.
func (l *Log) lane(of limit) *lane {
	if l.index[of] == nil {
		l.index[of] = &lane{limit: of, counts: make(map[kind]int)}
		l.lanes = append(l.lanes, l.index[of])
	}
	return l.index[of]
}

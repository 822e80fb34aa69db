package buckets

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/ratelight/ratelight/ratelimits"
)

// Stats are the numbers of a manager since it was made. They are read one after the other, so they may be slightly
// inconsistent.
type Stats struct {
	// Buckets, Routes and Authentications are the numbers of those that are known now.
	Buckets, Routes, Authentications int
	// Waiting and InFlight are the numbers of requests that wait and that are in flight now.
	Waiting, InFlight int
	// Granted counts the requests that were allowed to be sent.
	Granted uint64
	// Waited counts the granted requests that had to wait, WaitTime is the sum of their waits.
	Waited   uint64
	WaitTime time.Duration
	// TooLong, QueueFull, OverBudget and Cancelled count the requests that were not granted: refused because of the
	// predicted wait, because too many waited, because of the budget of invalid requests, or cancelled by their
	// context.
	TooLong, QueueFull, OverBudget, Cancelled uint64
	// Responses counts the responses by class; what is not a 429 is under ratelimits.ClassOK.
	Responses [ratelimits.NumClasses]uint64
	// Invalid is the number of Discord's responses in the latest period that count against its limit of invalid
	// requests, InvalidLimit the allowed number, 0 if there is no bound.
	Invalid, InvalidLimit int
	// Lost counts the requests whose outcome never became known.
	Lost uint64
	// Declared is how many requests wait now for each of the limits of WithLimit, by its name; nil if there are none.
	Declared map[string]int
	// Evicted counts the buckets that were removed by the garbage collector.
	Evicted uint64
	// Shared is about what the manager shares with other processes, see WithShared.
	Shared SharedStats
}

// MarshalJSON encodes the numbers with descriptive names: classes by name, times in seconds.
func (s Stats) MarshalJSON() ([]byte, error) {
	classes := make(map[string]uint64, len(s.Responses))
	for class, n := range s.Responses {
		classes[ratelimits.Class(class).String()] = n
	}
	declared := make(map[string]int, len(s.Declared)) // never null
	maps.Copy(declared, s.Declared)
	return json.Marshal(map[string]any{
		"buckets": s.Buckets, "routes": s.Routes, "authentications": s.Authentications,
		"waiting": s.Waiting, "in_flight": s.InFlight,
		"granted": s.Granted, "waited": s.Waited, "wait_seconds": s.WaitTime.Seconds(),
		"too_long": s.TooLong, "queue_full": s.QueueFull, "over_budget": s.OverBudget, "cancelled": s.Cancelled,
		"responses": classes, "invalid": s.Invalid, "invalid_limit": s.InvalidLimit, "lost": s.Lost, "evicted": s.Evicted,
		"declared_waiting": declared, "shared": s.Shared,
	})
}

// counters count what happens to some requests.
type counters struct {
	waitTime                      *xsync.Counter
	tooLong, queueFull, cancelled *xsync.Counter
	overBudget, evicted           *xsync.Counter
}

func newCounters() counters {
	return counters{
		waitTime: xsync.NewCounter(), tooLong: xsync.NewCounter(), queueFull: xsync.NewCounter(), cancelled: xsync.NewCounter(),
		evicted: xsync.NewCounter(), overBudget: xsync.NewCounter(),
	}
}

func (c *counters) refuse(err error) {
	var tooLong *ratelimits.TooLongError
	var queueFull *ratelimits.QueueFullError
	var overBudget *ratelimits.BudgetError
	switch {
	case errors.As(err, &tooLong):
		c.tooLong.Inc()
	case errors.As(err, &queueFull):
		c.queueFull.Inc()
	case errors.As(err, &overBudget):
		c.overBudget.Inc()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		c.cancelled.Inc()
	}
}

// Stats returns the current numbers.
func (m *RESTBucketManager) Stats() Stats {
	c := &m.counters
	m.moves.Lock()
	all := m.forgotten
	for _, s := range m.servers {
		all.add(s.budget.counters)
	}
	shared := m.sharedStats()
	m.moves.Unlock()
	return Stats{
		Buckets: m.buckets.size(), Routes: m.entries.Size(), Authentications: m.authentications.Size(),
		Waiting:   int(m.waiting.Load()),
		InFlight:  int(max(all.inFlight(), 0)),
		Granted:   all.granted,
		Waited:    all.waited,
		WaitTime:  time.Duration(c.waitTime.Value()),
		TooLong:   uint64(c.tooLong.Value()),
		QueueFull: uint64(c.queueFull.Value()),
		Cancelled: uint64(c.cancelled.Value()),
		Responses: all.responses,
		Lost:      all.lost,
		Declared:  m.declaredStats(),
		Evicted:   uint64(c.evicted.Value()),

		Shared:     shared,
		OverBudget: uint64(c.overBudget.Value()),
		Invalid:    m.discord.budget.used(m.now()), InvalidLimit: m.discord.budget.limit,
	}
}

// requestCounters count what happens to every request to one server. They are spread over several cache lines, a power of two, and a bucket
// always uses the same one, so that requests of different buckets seldom meet.
type requestCounters []counterShard

type counterShard struct {
	waited    atomic.Uint64 // of those that were granted; counted before, so never fewer
	granted   atomic.Uint64
	adopted   atomic.Uint64 // what was granted elsewhere, or may be about to be
	responses [ratelimits.NumClasses]atomic.Uint64
	lost      atomic.Uint64
	others    atomic.Uint64 // requests that were not sent, and responses of no class
	_         [cacheLines - (ratelimits.NumClasses+5)*8]byte
}

// cacheLines is two of them, as processors fetch them in pairs.
const cacheLines = 128

func newRequestCounters() requestCounters {
	return make(requestCounters, 1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))
}

func (c requestCounters) shardOf(b *bucket) *counterShard {
	const odd = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio, so that ids which follow each other go far apart
	return &c[mix(b.group.id^b.major.id, odd)&uint64(len(c)-1)]
}

// countGrant counts a request that was granted, under its bucket's lock.
func (c *counterShard) countGrant(h *held) {
	h.counters = c
	c.granted.Add(1)
}

// reserve counts one that may be about to be granted, until unreserve.
func (c *counterShard) reserve() { c.adopted.Add(1) }

func (c *counterShard) unreserve() {
	if c != nil {
		c.adopted.Add(^uint64(0))
	}
}

// inFlight returns how many that were counted here have not ended. What happens meanwhile makes it too large, never too small.
func (c *counterShard) inFlight() int64 {
	ended := c.lost.Load() + c.others.Load()
	for class := range c.responses {
		ended += c.responses[class].Load()
	}
	return int64(c.granted.Load() + c.adopted.Load() - ended)
}

// countEnd counts the end of a request.
func (c *counterShard) countEnd(o *outcome) {
	switch class := o.response.Class; {
	case !o.sent || class >= ratelimits.NumClasses:
		c.others.Add(1)
	case o.response.Status == 0:
		c.lost.Add(1)
	default:
		c.responses[class].Add(1)
	}
}

// inFlight returns how many of all that were counted have not ended.
func (c requestCounters) inFlight() (n int64) {
	for i := range c {
		n += c[i].inFlight()
	}
	return n
}

// counterTotals are counters added up.
type counterTotals struct {
	granted, waited, adopted, lost, ended uint64
	responses                             [ratelimits.NumClasses]uint64
}

func (s *counterTotals) inFlight() int64 { return int64(s.granted + s.adopted - s.ended) }

// add adds them. What happens meanwhile makes what is in flight too small, never too large.
func (s *counterTotals) add(c requestCounters) {
	for i := range c {
		s.granted += c[i].granted.Load()
		s.waited += c[i].waited.Load()
		s.adopted += c[i].adopted.Load()
		for class := range s.responses {
			n := c[i].responses[class].Load()
			s.responses[class] += n
			s.ended += n
		}
		lost := c[i].lost.Load()
		s.lost += lost
		s.ended += lost + c[i].others.Load()
	}
}

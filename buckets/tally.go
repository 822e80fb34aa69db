package buckets

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/ratelight/ratelight/ratelimits"
)

// requestCounters count what happens to every request to one server. They are spread over several cache lines, and a bucket always uses the same
// one, so that requests of different buckets seldom meet.
type requestCounters []counterShard

type counterShard struct {
	granted   atomic.Uint64
	adopted   atomic.Uint64 // what was granted elsewhere, or may be about to be
	responses [ratelimits.NumClasses]atomic.Uint64
	lost      atomic.Uint64
	others    atomic.Uint64 // requests that were not sent, and responses of no class
	_         [cacheLines - (ratelimits.NumClasses+4)*8]byte
}

// cacheLines is two of them, as processors fetch them in pairs.
const cacheLines = 128

func newRequestCounters() requestCounters {
	return make(requestCounters, 1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))
}

func (t requestCounters) shardOf(b *RESTBucket) *counterShard { return &t[b.key%uint64(len(t))] }

// countGrant counts a request that was granted, under its bucket's lock.
func (t *counterShard) countGrant(h *held) {
	h.counters = t
	t.granted.Add(1)
}

// reserve counts one that may be about to be granted, until unreserve.
func (t *counterShard) reserve() { t.adopted.Add(1) }

func (t *counterShard) unreserve() {
	if t != nil {
		t.adopted.Add(^uint64(0))
	}
}

// inFlight returns how many that were counted here have not ended. What happens meanwhile makes it too large, never too small.
func (t *counterShard) inFlight() int64 {
	ended := t.lost.Load() + t.others.Load()
	for class := range t.responses {
		ended += t.responses[class].Load()
	}
	return int64(t.granted.Load() + t.adopted.Load() - ended)
}

// countEnd counts the end of a request.
func (t *counterShard) countEnd(o *outcome) {
	switch class := o.response.Class; {
	case !o.sent || class >= ratelimits.NumClasses:
		t.others.Add(1)
	case o.response.Status == 0:
		t.lost.Add(1)
	default:
		t.responses[class].Add(1)
	}
}

// inFlight returns how many of all that were counted have not ended.
func (t requestCounters) inFlight() (n int64) {
	for i := range t {
		n += t[i].inFlight()
	}
	return n
}

// counterTotals are counters added up.
type counterTotals struct {
	granted, adopted, lost, ended uint64
	responses                     [ratelimits.NumClasses]uint64
}

func (s *counterTotals) inFlight() int64 { return int64(s.granted + s.adopted - s.ended) }

// add adds them. What happens meanwhile makes what is in flight too small, never too large.
func (s *counterTotals) add(t requestCounters) {
	for i := range t {
		s.granted += t[i].granted.Load()
		s.adopted += t[i].adopted.Load()
		for class := range s.responses {
			n := t[i].responses[class].Load()
			s.responses[class] += n
			s.ended += n
		}
		lost := t[i].lost.Load()
		s.lost += lost
		s.ended += lost + t[i].others.Load()
	}
}

package buckets

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/ratelight/ratelight/ratelimits"
)

// tallies count what happens to every request to one server. They are spread over several cache lines, and a bucket always uses the same
// one, so that requests of different buckets seldom meet.
type tallies []tally

type tally struct {
	granted   atomic.Uint64
	adopted   atomic.Uint64 // what was granted elsewhere, or may be about to be
	responses [ratelimits.NumClasses]atomic.Uint64
	lost      atomic.Uint64
	others    atomic.Uint64 // requests that were not sent, and responses of no class
	_         [cacheLines - (ratelimits.NumClasses+4)*8]byte
}

// cacheLines is two of them, as processors fetch them in pairs.
const cacheLines = 128

func newTallies() tallies {
	return make(tallies, 1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)))
}

func (t tallies) of(b *RESTBucket) *tally { return &t[b.key%uint64(len(t))] }

// grant counts a request that was granted, under its bucket's lock.
func (t *tally) grant(h *held) {
	h.tally = t
	t.granted.Add(1)
}

// reserve counts one that may be about to be granted, until unreserve.
func (t *tally) reserve() { t.adopted.Add(1) }

func (t *tally) unreserve() {
	if t != nil {
		t.adopted.Add(^uint64(0))
	}
}

// inFlight returns how many that were counted here have not ended. What happens meanwhile makes it too large, never too small.
func (t *tally) inFlight() int64 {
	ended := t.lost.Load() + t.others.Load()
	for class := range t.responses {
		ended += t.responses[class].Load()
	}
	return int64(t.granted.Load() + t.adopted.Load() - ended)
}

// settle counts the end of a request.
func (t *tally) settle(o *outcome) {
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
func (t tallies) inFlight() (n int64) {
	for i := range t {
		n += t[i].inFlight()
	}
	return n
}

// sums are tallies added up.
type sums struct {
	granted, adopted, lost, ended uint64
	responses                     [ratelimits.NumClasses]uint64
}

func (s *sums) inFlight() int64 { return int64(s.granted + s.adopted - s.ended) }

// add adds them. What happens meanwhile makes what is in flight too small, never too large.
func (s *sums) add(t tallies) {
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

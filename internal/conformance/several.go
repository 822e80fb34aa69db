package conformance

import (
	"context"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// Several makes several managers look like one. It sends new requests to the managers in turn.
type Several struct {
	managers []*buckets.RESTBucketManager

	mu   sync.Mutex
	next int
	of   map[*buckets.Request]int // index of each request's manager, to which it returns after a refusal
}

// NewSeveral returns a Several of these managers. Close of the Several closes the managers.
func NewSeveral(managers ...*buckets.RESTBucketManager) *Several {
	return &Several{managers: managers, of: make(map[*buckets.Request]int)}
}

// AcquireRequest calls AcquireRequest of the manager whose turn it is. A request that is acquired again goes to the
// same manager as the first time.
func (s *Several) AcquireRequest(ctx context.Context, r *buckets.Request) (buckets.Lease, error) {
	s.mu.Lock()
	n, ok := s.of[r]
	if !ok {
		n = s.next % len(s.managers)
		s.of[r] = n
		s.next++
	}
	s.mu.Unlock()
	return s.managers[n].AcquireRequest(ctx, r)
}

// Close closes the managers. The error is always nil.
func (s *Several) Close() error {
	for _, m := range s.managers {
		m.Close()
	}
	return nil
}

package conformance

import (
	"context"
	"sync"

	"github.com/ratelight/ratelight/buckets"
)

// Several are managers behind which it cannot be seen that they are several: each gets the next new request. Get one from NewSeveral.
type Several struct {
	managers []*buckets.RESTBucketManager

	mu   sync.Mutex
	next int
	of   map[*buckets.Request]int // which manager: a request that was refused comes back to its own
}

// NewSeveral returns managers that take turns. Its Close closes them.
func NewSeveral(managers ...*buckets.RESTBucketManager) *Several {
	return &Several{managers: managers, of: make(map[*buckets.Request]int)}
}

// AcquireRequest is that of the manager whose turn it is.
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

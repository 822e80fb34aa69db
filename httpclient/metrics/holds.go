package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// holds are those that are not over, as far as the manager has told: when they end, by class.
type holds struct {
	mu   sync.Mutex
	ends [ratelimits.NumClasses][]time.Time
}

// note takes in a new hold.
func (h *holds) note(_ context.Context, e buckets.Held) {
	if int(e.Class) >= len(h.ends) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.forget(e.Class, now)
	h.ends[e.Class] = append(h.ends[e.Class], now.Add(e.Wait))
}

// forget forgets those that are over.
func (h *holds) forget(class ratelimits.Class, now time.Time) {
	h.ends[class] = slices.DeleteFunc(h.ends[class], func(end time.Time) bool { return !end.After(now) })
}

// of returns how many there are of a class, and when the last of them ends.
func (h *holds) of(class ratelimits.Class) (n int, remaining time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.forget(class, now)
	for _, end := range h.ends[class] {
		remaining = max(remaining, end.Sub(now))
	}
	return len(h.ends[class]), remaining
}

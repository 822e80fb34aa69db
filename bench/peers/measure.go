package main

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// result is what became of a workload.
type result struct {
	calls    int
	failed   []error
	makespan time.Duration
	report   discordsim.Report
}

// ok is the number of calls that succeeded.
func (r result) ok() int { return r.calls - len(r.failed) }

// realTime is the tolerance of a simulation in real time, on a busy machine.
const realTime = 20 * time.Millisecond

// measure makes all calls of a workload at once, each in a goroutine of its own.
func measure(h hook, w workload, tolerance time.Duration) (result, error) {
	server, err := newSimulated(w.config(tolerance))
	if err != nil {
		return result{}, err
	}
	defer server.server.Close()
	with, end, err := h.open(server)
	if err != nil {
		return result{}, err
	}
	defer end()

	r := result{calls: len(w.calls)}
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now()
	for _, c := range w.calls {
		all.Go(func() {
			if err := c.do(with); err != nil {
				mu.Lock()
				defer mu.Unlock()
				r.failed = append(r.failed, err)
			}
		})
	}
	all.Wait()
	r.makespan = time.Since(start)
	r.report = server.server.Report()
	return r, nil
}

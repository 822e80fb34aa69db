// Package tune answers an operator's question: which max rate limit should I set? It replays a load against a simulated
// Discord once for each value, in virtual time. It measures how many requests are rejected and how long others wait.
//
// # How a replay works
//
// A replay is a simulation of discrete events. The library's bucket manager and the simulated Discord share a clock
// that jumps from one event to the next. Each waiting request has a goroutine. When the manager answers requests, the
// replay waits for their goroutines before it goes on. Load, round trips and server are the same for every value.
package tune

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Config describes the load to replay and the values to compare.
type Config struct {
	Load          *Load
	Discord       Discord
	MaxRateLimits []time.Duration
	// Acceptable is the fraction of the requests that may be rejected.
	Acceptable float64
	// Done is called with the number of further requests that have an outcome. Several goroutines may call it at once.
	Done func(requests int)
}

// Report compares the max rate limits.
type Report struct {
	Config
	// Results has one result for each max rate limit, in ascending order.
	Results []Result
	// Smallest is the index of the smallest value that rejects no more than is acceptable; -1: there is none.
	Smallest int
	// Free is the index of the smallest value that rejects nothing; -1: there is none.
	Free int
	// Recommended is the index of the recommended value; -1: there is none, or no reason to prefer one. It is Free if
	// the longest wait there is at most cheapWait, or cheapTimes the smallest value. Otherwise it is Smallest.
	Recommended int
	// Bottleneck is the worst limit with the recommended value, or with the largest one if none is recommended. It is
	// nil if no request is rejected or waits for a limit.
	Bottleneck *Bottleneck
}

const (
	cheapWait  = 30 * time.Second
	cheapTimes = 3
)

// Run replays the load for each value, several values at once; the result does not depend on how many. The error is the
// context's when it ends, or reports an invalid configuration or a faulty manager.
func Run(ctx context.Context, config Config) (Report, error) {
	if err := config.Discord.Validate(); err != nil {
		return Report{}, err
	}
	values := slices.Clone(config.MaxRateLimits)
	slices.Sort(values)
	results, err := replayAll(ctx, config, slices.Compact(values))
	if err != nil {
		return Report{}, err
	}
	return newReport(config, results), nil
}

func newReport(config Config, results []Result) Report {
	r := Report{Config: config, Results: results}
	r.Smallest = slices.IndexFunc(results, func(v Result) bool { return v.Share() <= r.Acceptable })
	r.Free = slices.IndexFunc(results, func(v Result) bool { return v.Refused == 0 })
	r.Recommended = r.Smallest
	if r.Free >= 0 && results[r.Free].Max <= max(cheapWait, cheapTimes*results[r.Smallest].MaxRateLimit) {
		r.Recommended = r.Free
	}
	r.Bottleneck = findBottleneck(config, r.shown())
	if r.Bottleneck == nil && r.Free == 0 {
		r.Recommended = -1
	}
	return r
}

// shown returns the result of the recommended value, or of the largest one if none is recommended.
func (r *Report) shown() Result {
	if r.Recommended < 0 {
		return r.Results[len(r.Results)-1]
	}
	return r.Results[r.Recommended]
}

// replayAll returns a result for each value. It replays the values from the smallest up. If a value rejects nothing,
// all larger ones have the same result and need no replay.
func replayAll(ctx context.Context, config Config, values []time.Duration) ([]Result, error) {
	results := make([]Result, len(values))
	var mu sync.Mutex
	free := len(values) // index of the first value known to reject nothing
	isNeeded := func(i int) bool {
		mu.Lock()
		defer mu.Unlock()
		return i < free
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, value := range values {
		group.Go(func() (err error) {
			if !isNeeded(i) {
				return nil
			}
			results[i], err = simulate(running, config.Load, config.Discord, value, config.Done)
			mu.Lock()
			defer mu.Unlock()
			if results[i].Refused == 0 {
				free = min(free, i)
			}
			return err
		})
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	for i := free + 1; i < len(values); i++ {
		if results[i].Requests == 0 {
			config.Done(config.Load.Requests())
		}
		results[i] = results[free]
		results[i].MaxRateLimit = values[i]
	}
	return results, nil
}

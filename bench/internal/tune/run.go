// Package tune answers an operator's question: which max rate limit should I set? It replays a load against a simulated
// Discord once for each value, in virtual time, and looks at what is refused and how long the rest waits.
//
// # How a replay works
//
// A replay is a simulation of discrete events on one goroutine: the bucket manager of the library and the simulated Discord
// share a clock that jumps from one event to the next. Requests are acquired with AcquireFunc, so that none needs a
// goroutine. The load, the round trips and the server are the same for every value, so that only the value makes a
// difference.
package tune

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Config is what to replay, and which values to compare.
type Config struct {
	Load          *Load
	Discord       Discord
	MaxRateLimits []time.Duration
	// Acceptable is the part of the requests that may be refused.
	Acceptable float64
	// Done is called when so many more requests have an outcome, by several goroutines at once. It may be nil.
	Done func(requests int)
}

// Report is what came of the values.
type Report struct {
	// Results are in the order of the max rate limits.
	Results    []Result
	Acceptable float64
	// Smallest is the index of the smallest value that refuses no more than what is acceptable, -1 if none does.
	Smallest int
	// Free is the index of the smallest value that refuses nothing, -1 if none does.
	Free int
	// Recommended is the smallest value that refuses nothing if that is cheap: nobody waits longer for it than cheapWait, or than
	// cheapTimes the smallest value. Otherwise it is the smallest value.
	Recommended int
	// Bottleneck says which limit is most in the way with that value, or with the largest one if none will do. Nil if no request is
	// refused, and none waits for a limit.
	Bottleneck *Bottleneck
}

const (
	cheapWait  = 30 * time.Second
	cheapTimes = 3
)

// recommend chooses among the results.
func (r *Report) recommend() {
	r.Smallest = slices.IndexFunc(r.Results, func(v Result) bool { return v.Share() <= r.Acceptable })
	r.Free = slices.IndexFunc(r.Results, func(v Result) bool { return v.Refused == 0 })
	r.Recommended = r.Smallest
	if r.Free >= 0 && r.Results[r.Free].Max <= max(cheapWait, cheapTimes*r.Results[r.Smallest].MaxRateLimit) {
		r.Recommended = r.Free
	}
}

// Run replays the load for each value, several at once. The result does not depend on how many. The error is the context's
// when it ends, or about a configuration that makes no sense.
func Run(ctx context.Context, config Config) (Report, error) {
	if err := config.Discord.Validate(); err != nil {
		return Report{}, err
	}
	values := slices.Clone(config.MaxRateLimits)
	slices.Sort(values)
	values = slices.Compact(values)
	results, err := replayAll(ctx, config, values)
	if err != nil {
		return Report{}, err
	}
	report := Report{Results: results, Acceptable: config.Acceptable}
	report.recommend()
	shown := report.Recommended
	if shown < 0 {
		shown = len(results) - 1
	}
	report.Bottleneck = findBottleneck(config, results[shown])
	return report, nil
}

// replayAll returns a result for each value. They are replayed from the smallest up; when one refuses nothing, neither does
// a larger one, and everything else is the same, too.
func replayAll(ctx context.Context, config Config, values []time.Duration) ([]Result, error) {
	done := config.Done
	if done == nil {
		done = func(int) {}
	}
	results, errs := make([]Result, len(values)), make([]error, len(values))
	var mu sync.Mutex
	next, free := 0, len(values) // free: the first that is known to refuse nothing
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= len(values) && next-1 < free
	}
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i, more := take(); more; i, more = take() {
				results[i], errs[i] = simulate(ctx, config.Load, config.Discord, values[i], done)
				if errs[i] == nil && results[i].Refused == 0 {
					mu.Lock()
					free = min(free, i)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if err := cmp.Or(ctx.Err(), errors.Join(errs...)); err != nil {
		return nil, err
	}
	for i := free + 1; i < len(values); i++ {
		if results[i].Requests == 0 {
			done(config.Load.Requests())
		}
		results[i] = results[free]
		results[i].MaxRateLimit = values[i]
	}
	return results, nil
}

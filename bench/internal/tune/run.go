// Package tune answers an operator's question: which max rate limit should I set? It replays a load against a simulated
// Discord once for each value, in virtual time, and looks at what is refused and how long the rest waits.
//
// # How a replay works
//
// A replay is a simulation of discrete events: the bucket manager of the library and the simulated Discord share a
// clock that jumps from one event to the next. Each request that waits has a goroutine, of which only one runs at a
// time, and never beside the replay. The load, the round trips and the server are the same for every value, so that
// only the value makes a difference.
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

// Config is what to replay, and which values to compare.
type Config struct {
	Load          *Load
	Discord       Discord
	MaxRateLimits []time.Duration
	// Acceptable is the part of the requests that may be refused.
	Acceptable float64
	// Done is called when so many more requests have an outcome, by several goroutines at once.
	Done func(requests int)
}

// Report is what came of the values.
type Report struct {
	Config
	// Results are in the order of the max rate limits.
	Results []Result
	// Smallest is the index of the smallest value that refuses no more than what is acceptable, -1 if none does.
	Smallest int
	// Free is the index of the smallest value that refuses nothing, -1 if none does.
	Free int
	// Recommended is the smallest value that refuses nothing if that is cheap: nobody waits longer for it than
	// cheapWait, or than cheapTimes the smallest value. Otherwise it is the smallest value. It is -1 if there is none,
	// or no reason to prefer one.
	Recommended int
	// Bottleneck says which limit is most in the way with that value, or with the largest one if none will do. Nil if
	// no request is refused, and none waits for a limit.
	Bottleneck *Bottleneck
}

const (
	cheapWait  = 30 * time.Second
	cheapTimes = 3
)

// Run replays the load for each value, several at once. The result does not depend on how many. The error is the
// context's when it ends, or about a configuration that makes no sense.
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

// shown is the result of the recommended value, or that of the largest one if there is none.
func (r *Report) shown() Result {
	if r.Recommended < 0 {
		return r.Results[len(r.Results)-1]
	}
	return r.Results[r.Recommended]
}

// replayAll returns a result for each value. They are replayed from the smallest up; when one refuses nothing, neither
// does a larger one, and everything else is the same, too.
func replayAll(ctx context.Context, config Config, values []time.Duration) ([]Result, error) {
	results := make([]Result, len(values))
	var mu sync.Mutex
	free := len(values) // the first that is known to refuse nothing
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

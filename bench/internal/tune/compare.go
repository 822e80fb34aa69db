package tune

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// Config describes the load to replay, and what the caller wants.
type Config struct {
	Load    *Load
	Discord Discord
	// Useful is the longest wait after which an answer is still of use.
	Useful time.Duration
	// MaxRateLimits are the values to compare with the recommended one. If there are none, some smaller and some larger
	// values are used.
	MaxRateLimits []time.Duration
}

// Report compares the max rate limits.
type Report struct {
	Config
	// Results has one result for each max rate limit, in ascending order.
	Results []Result
	// Smallest is the index of the smallest value that refuses no request that could have left in time.
	Smallest int
	limits   []limit
	patient  Result // of the replay that refuses nothing
}

// Result is the outcome of a load with one max rate limit.
type Result struct {
	MaxRateLimit      time.Duration
	Requests, Refused int
	// InVain counts the requests among Refused that could have left in time, according to their predictions or to a replay
	// that refuses nothing. Late counts the requests that left too late.
	InVain, Late int
	// Queued has quantiles of how long requests that were not refused were held back, without round trips.
	load.Queued
	// Limited counts 429s.
	Limited int

	predicted time.Duration   // the longest wait that the manager predicted and accepted
	wanted    time.Duration   // the longest predicted wait of the requests in InVain
	waits     []time.Duration // of each request; -1 if it was refused
	tallies   []tally         // of each limit
}

// tally counts the requests for which one limit opened last.
type tally struct {
	requests, refused int
	// waited is the sum of the waits of all these requests, and longest is their longest wait. Refused requests count with
	// their predicted wait.
	waited, longest time.Duration
}

// Run replays the load. The result does not depend on how many replays run at once. If the context ends, Run returns
// the context's error. Any other error reports a faulty manager.
func Run(ctx context.Context, config Config) (*Report, error) {
	r := &Report{Config: config}
	r.limits, _, _ = config.Discord.limits(config.Load)
	patient, err := simulate(ctx, config, nil, longestTrace)
	if err != nil {
		return nil, err
	}
	r.patient = patient
	if err := r.replay(ctx, config.Useful); err != nil {
		return nil, err
	}
	smallest, err := r.search(ctx)
	if err != nil {
		return nil, err
	}
	values := config.MaxRateLimits
	if len(values) == 0 {
		step := stepOf(config.Useful)
		values = []time.Duration{
			(smallest / 4).Truncate(step), (smallest / 2).Truncate(step), 3 * config.Useful, buckets.DefaultMaxRateLimit,
		}
	}
	if err := r.replay(ctx, values...); err != nil {
		return nil, err
	}
	shown := append(slices.Clone(values), smallest, config.Useful)
	r.Results = slices.DeleteFunc(r.Results, func(v Result) bool { return !slices.Contains(shown, v.MaxRateLimit) })
	slices.SortFunc(r.Results, func(a, b Result) int { return cmp.Compare(a.MaxRateLimit, b.MaxRateLimit) })
	r.Smallest = slices.IndexFunc(r.Results, func(v Result) bool { return v.InVain == 0 })
	return r, nil
}

// search returns the smallest multiple of a step with which nothing is refused in vain. It begins with the longest
// predicted wait that a replay with Useful has accepted, because a smaller value would refuse the request with this
// wait. It goes up to the longest predicted wait that was refused in vain, and then down, because refusals also change
// the waits of other requests.
func (r *Report) search(ctx context.Context) (time.Duration, error) {
	step := stepOf(r.Useful)
	value, down := roundUp(r.Results[0].predicted, step), false
	for {
		if err := r.replay(ctx, value); err != nil {
			return 0, err
		}
		i := slices.IndexFunc(r.Results, func(v Result) bool { return v.MaxRateLimit == value })
		switch refused := r.Results[i].InVain > 0; {
		case refused && down:
			return value + step, nil
		case refused:
			value = max(roundUp(r.Results[i].wanted, step), value+step)
		case value < step:
			return value, nil
		default:
			value, down = (value - 1).Truncate(step), true
		}
	}
}

func roundUp(d, step time.Duration) time.Duration { return (d + step - 1).Truncate(step) }

// stepOf returns the step of recommended values: a hundredth of the useful wait, rounded up to a power of ten.
func stepOf(useful time.Duration) time.Duration {
	step := time.Millisecond
	for step*100 < useful {
		step *= 10
	}
	return step
}

// replay adds a result for each value that has none.
func (r *Report) replay(ctx context.Context, values ...time.Duration) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	values = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(values))), func(value time.Duration) bool {
		return slices.ContainsFunc(r.Results, func(v Result) bool { return v.MaxRateLimit == value })
	})
	results := make([]Result, len(values))
	for i, value := range values {
		group.Go(func() (err error) {
			results[i], err = simulate(running, r.Config, r.patient.waits, value)
			return err
		})
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		return err
	}
	r.Results = append(r.Results, results...)
	return nil
}

// record collects a result during a replay.
type record struct {
	Result
	useful   time.Duration
	answered int
	bucketOf []int
	patient  []time.Duration // how long each request waits if nothing is refused; nil if not known
}

func newRecord(c *Config, bucketOf []int, limits int, patient []time.Duration) record {
	n := c.Load.Requests()
	result := Result{Requests: n, tallies: make([]tally, limits), waits: make([]time.Duration, n)}
	return record{Result: result, useful: c.Useful, bucketOf: bucketOf, patient: patient}
}

// limit returns the tally of a queue's bucket, or of the global limit.
func (r *record) limit(queue int, global bool) *tally {
	if global {
		return &r.tallies[len(r.tallies)-1]
	}
	return &r.tallies[r.bucketOf[queue]]
}

func (t *tally) add(d time.Duration) {
	t.requests++
	t.waited, t.longest = t.waited+d, max(t.longest, d)
}

// wait records that the manager has granted a request, how long it waited, and which limit opened last.
func (r *record) wait(queue int, opened buckets.WaitsFor, d time.Duration) {
	if opened != buckets.WaitsForNothing && opened != buckets.WaitsForProbe { // a probe is not a limit
		r.limit(queue, opened == buckets.WaitsForGlobal).add(d)
	}
}

// refuse records a request that the manager refused.
func (r *record) refuse(number, queue int, err error) {
	r.Refused++
	r.waits[number] = -1
	var tooLong *ratelimits.TooLongError
	if !errors.As(err, &tooLong) {
		return
	}
	if tooLong.Wait <= r.useful || r.patient != nil && r.patient[number] <= r.useful {
		r.InVain, r.wanted = r.InVain+1, max(r.wanted, tooLong.Wait)
	}
	limit := r.limit(queue, tooLong.Global)
	limit.refused++
	limit.add(tooLong.Wait)
}

// answer records a request that was answered, and how long it was queued.
func (r *record) answer(number int, queued time.Duration) {
	r.answered++
	r.waits[number] = queued
	if queued > r.useful {
		r.Late++
	}
}

// result completes the result and returns it.
func (r *record) result(maxRateLimit time.Duration) Result {
	waited := slices.DeleteFunc(slices.Clone(r.waits), func(d time.Duration) bool { return d < 0 })
	r.MaxRateLimit, r.Queued = maxRateLimit, load.Quantiles(waited)
	if r.patient != nil {
		r.waits = nil // only the waits of the replay that refuses nothing are needed later
	}
	return r.Result
}

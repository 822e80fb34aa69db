package tune

import (
	"errors"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result is the outcome of a load with one max rate limit.
type Result struct {
	MaxRateLimit      time.Duration
	Requests, Refused int
	// Queued has quantiles of how long requests that were not rejected were held back, without round trips.
	load.Queued
	// LongestQueue is the largest number of requests that waited in one queue at once, MostWaiting in all together.
	LongestQueue, MostWaiting int
	// Makespan is the time from the beginning until the last answer.
	Makespan time.Duration
	// Limited counts 429s.
	Limited int

	queues []tally
	global tally // the global limit
	events int   // events of the simulation
}

// tally counts how one limit affected requests.
type tally struct {
	// Refused counts the requests that the manager rejected because of the limit.
	Refused int
	// Waited is the total time that requests waited for the limit, Longest the longest single wait. If requests were
	// rejected, Longest is the longest wait predicted for them.
	Waited, Longest time.Duration
	// The limit allows Limit requests per Period; 0: the client never learned it.
	Limit  int
	Period time.Duration
}

// Share returns the fraction of the requests that were rejected.
func (r *Result) Share() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.Refused) / float64(r.Requests)
}

// record collects a result during a replay.
type record struct {
	Result
	queued  []time.Duration
	waiting []int // requests without an answer yet, for each queue
	all     int   // sum of waiting
}

func newRecord(l *Load) record {
	return record{Result: Result{Requests: l.Requests(), queues: make([]tally, len(l.queues))}, waiting: make([]int, len(l.queues))}
}

// wait records that a request no longer waits, how long it waited, and for what.
func (r *record) wait(queue int, waitsFor buckets.WaitsFor, d time.Duration) {
	if d > 0 { // 0: it was rejected at once
		r.LongestQueue, r.MostWaiting = max(r.LongestQueue, r.waiting[queue]), max(r.MostWaiting, r.all)
	}
	r.waiting[queue]--
	r.all--
	limit := &r.queues[queue]
	switch waitsFor {
	case buckets.WaitsForNothing, buckets.WaitsForProbe: // the probe is no limit
		return
	case buckets.WaitsForGlobal:
		limit = &r.global
	}
	limit.Waited += d
	if limit.Refused == 0 {
		limit.Longest = max(limit.Longest, d)
	}
}

// refuse records a request that the manager rejected.
func (r *record) refuse(queue int, err error) {
	r.Refused++
	var tooLong *ratelimits.TooLongError
	if !errors.As(err, &tooLong) {
		return
	}
	limit := &r.queues[queue]
	if tooLong.Global {
		limit = &r.global
	} else if tooLong.Limit > 0 {
		limit.Limit, limit.Period = tooLong.Limit, tooLong.Period
	}
	if limit.Refused == 0 {
		limit.Longest = 0 // from now on only predicted waits count
	}
	limit.Refused, limit.Longest = limit.Refused+1, max(limit.Longest, tooLong.Wait)
}

// tell calls done with the number of outcomes since before, and returns the number of all outcomes.
func (r *record) tell(done func(int), before int) int {
	ended := r.Refused + len(r.queued)
	done(ended - before)
	return ended
}

// result completes the result and returns it.
func (r *record) result(maxRateLimit time.Duration) Result {
	r.MaxRateLimit, r.Queued = maxRateLimit, load.Quantiles(r.queued)
	return r.Result
}

// Bottleneck is the limit that causes most rejections or, if there are none, the longest wait in total.
type Bottleneck struct {
	// Name is the route with its channel, guild or webhook, without tokens; empty: the global limit.
	Name string
	tally
	// Asked is the average of requests per second that needed the limit; 0 if the load takes no time.
	Asked float64
	// Lasting reports whether the load as a whole, not only for a while, needs more than the limit allows.
	Lasting bool
}

// lastingPeriods is how many periods a load must take for its average to be meaningful.
const lastingPeriods = 10

// findBottleneck returns nil if no request is rejected or waits for a limit.
func findBottleneck(config Config, r Result) *Bottleneck {
	load := config.Load
	worst, requests := Bottleneck{tally: r.global}, load.Requests()
	worst.Limit, worst.Period = config.Discord.GlobalLimit, time.Second
	for i, q := range r.queues {
		if q.Refused > worst.Refused || r.Refused == 0 && q.Waited > worst.Waited {
			worst, requests = Bottleneck{Name: load.queues[i].name, tally: q}, load.queues[i].requests
		}
	}
	if worst.Refused == 0 && worst.Waited == 0 {
		return nil
	}
	if load.Length > 0 {
		worst.Asked = float64(requests) / load.Length.Seconds()
	}
	if worst.Limit > 0 && load.Length >= lastingPeriods*worst.Period {
		windows := float64(load.Length)/float64(worst.Period) + 1
		worst.Lasting = float64(requests) > float64(worst.Limit)*windows
	}
	return &worst
}

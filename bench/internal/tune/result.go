package tune

import (
	"errors"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result is what a max rate limit makes of a load.
type Result struct {
	MaxRateLimit      time.Duration
	Requests, Refused int
	// Queued is how long the requests that were not refused were held back. Round trips are no part of it.
	load.Queued
	// LongestQueue is the largest number that waited for one route and channel, guild or webhook, MostWaiting that of all
	// queues together.
	LongestQueue, MostWaiting int
	// Makespan is the time from the beginning until the last answer.
	Makespan time.Duration
	// Limited counts 429s.
	Limited int

	queues []tally
	global tally // the global limit
	events int   // of the simulation
}

// tally is what one limit has done to requests.
type tally struct {
	// Refused is how many requests had to be refused because of it.
	Refused int
	// Waited is for how long requests waited for it, all together, Longest the longest of these waits; or, if it refused any, the longest
	// that was predicted for them.
	Waited, Longest time.Duration
	// Limit requests per Period are what it allows. 0 if the client never learnt it.
	Limit  int
	Period time.Duration
}

// Share is the part of the requests that was refused.
func (r *Result) Share() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.Refused) / float64(r.Requests)
}

// record is a result in the making.
type record struct {
	Result
	queued  []time.Duration
	waiting []int // requests that have asked and have no answer, in each queue
	all     int   // the same in all
}

func newRecord(l *Load) record {
	return record{Result: Result{Requests: l.Requests(), queues: make([]tally, len(l.queues))}, waiting: make([]int, len(l.queues))}
}

// wait notes for how long one has waited that waits no longer, and for what.
func (r *record) wait(queue int, waitsFor buckets.WaitsFor, d time.Duration) {
	if d > 0 { // or it was refused at once
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

// refuse notes a request that was not.
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
		limit.Longest = 0 // what counts from now on is what was predicted
	}
	limit.Refused, limit.Longest = limit.Refused+1, max(limit.Longest, tooLong.Wait)
}

// tell says how many more requests have an outcome than were told before, and returns how many have one.
func (r *record) tell(done func(int), before int) int {
	ended := r.Refused + len(r.queued)
	done(ended - before)
	return ended
}

// result is what has become of all requests.
func (r *record) result(maxRateLimit time.Duration) Result {
	r.MaxRateLimit, r.Queued = maxRateLimit, load.Quantiles(r.queued)
	return r.Result
}

// Bottleneck is the limit that refuses most requests, or lets requests wait for most time in all if none is refused.
type Bottleneck struct {
	// Name is the route and the channel, guild or webhook that it is about, without any token.
	Name string
	tally
	// Asked is how many requests per second there were for it, on the average of the whole load; 0 if the load takes no time.
	Asked float64
	// Lasting: more is asked for than it allows, not only for a while.
	Lasting bool
}

// lastingPeriods is how many periods a load has to take before its average says something.
const lastingPeriods = 10

// findBottleneck returns nil if no request is refused, and none waits for a limit.
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

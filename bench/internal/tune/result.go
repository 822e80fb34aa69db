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
	refused   int
	predicted time.Duration // the longest wait that was refused
	waited    time.Duration // by all requests together
	longest   time.Duration
	limit     int // as the client knew it
	period    time.Duration
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
	grown   []int // queues in which more may wait than before
}

func newRecord(l *Load) record {
	return record{Result: Result{Requests: l.Requests(), queues: make([]tally, len(l.queues))}, waiting: make([]int, len(l.queues))}
}

// wait notes for how long one has waited, and for what.
func (r *record) wait(queue int, waitsFor buckets.WaitsFor, d time.Duration) {
	limit := &r.queues[queue]
	switch waitsFor {
	case buckets.WaitsForNothing, buckets.WaitsForProbe: // the probe is no limit
		return
	case buckets.WaitsForGlobal:
		limit = &r.global
	}
	limit.waited, limit.longest = limit.waited+d, max(limit.longest, d)
}

// measure looks how long the queues are. It is called when nothing more happens at this moment.
func (r *record) measure() {
	for _, queue := range r.grown {
		r.LongestQueue = max(r.LongestQueue, r.waiting[queue])
	}
	r.grown = r.grown[:0]
	r.MostWaiting = max(r.MostWaiting, r.all)
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
		limit.limit, limit.period = tooLong.Limit, tooLong.Period
	}
	limit.refused, limit.predicted = limit.refused+1, max(limit.predicted, tooLong.Wait)
}

// result is what has become of all requests.
func (r *record) result(maxRateLimit time.Duration, events int) Result {
	r.MaxRateLimit, r.events, r.Queued = maxRateLimit, events, load.Quantiles(r.queued)
	return r.Result
}

// Bottleneck is the limit that refuses most requests, or lets requests wait for most time in all if none is refused.
type Bottleneck struct {
	// Name is the route and the channel, guild or webhook that it is about, without any token. Empty: the global limit.
	Name string
	// Refused is how many requests had to be refused because of it.
	Refused int
	// Waited is for how long requests waited for it, all together.
	Waited time.Duration
	// Asked is how many requests per second there were for it, on the average of the whole load; 0 if the load takes no time.
	Asked float64
	// Limit requests per Period are what it allows. 0 if the client never learnt it.
	Limit  int
	Period time.Duration
	// Lasting: more is asked for than it allows, not only for a while.
	Lasting bool
	// Longest is the longest wait that was predicted, or the longest wait if no request was refused.
	Longest time.Duration
}

// lastingPeriods is how many periods a load has to take before its average says something.
const lastingPeriods = 10

// findBottleneck returns nil if no request is refused, and none waits for a limit.
func findBottleneck(config Config, r Result) *Bottleneck {
	name, worst, requests := "", r.global, config.Load.Requests()
	worst.limit, worst.period = config.Discord.GlobalLimit, time.Second
	for i, q := range r.queues {
		if q.refused > worst.refused || r.Refused == 0 && q.waited > worst.waited {
			name, worst, requests = config.Load.queues[i].name, q, config.Load.queues[i].requests
		}
	}
	if r.Refused == 0 {
		worst.predicted = worst.longest
	}
	if worst.refused == 0 && worst.waited == 0 {
		return nil
	}
	b := &Bottleneck{Name: name, Refused: worst.refused, Waited: worst.waited, Limit: worst.limit, Period: worst.period, Longest: worst.predicted}
	if config.Load.Length > 0 {
		b.Asked = float64(requests) / config.Load.Length.Seconds()
	}
	if b.Limit > 0 && config.Load.Length >= lastingPeriods*b.Period {
		windows := float64(config.Load.Length)/float64(b.Period) + 1
		b.Lasting = float64(requests) > float64(b.Limit)*windows
	}
	return b
}

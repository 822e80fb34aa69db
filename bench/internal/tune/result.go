package tune

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result is what a max rate limit makes of a load.
type Result struct {
	MaxRateLimit      time.Duration
	Requests, Refused int
	// How long the requests that were not refused were held back. Round trips are no part of it.
	Median, P99, Max time.Duration
	// LongestQueue is the largest number that waited for one route and channel, guild or webhook, MostWaiting that of all
	// queues together.
	LongestQueue, MostWaiting int
	// Makespan is the time from the beginning until the last answer.
	Makespan time.Duration
	// Limited counts 429s.
	Limited int

	refusals []refusals // of each queue
	waits    []waits    // of each queue
	events   int        // of the simulation
}

// refusals are those of one queue.
type refusals struct {
	bucket, global int           // by which limit
	longest        time.Duration // predicted wait
	limit          int           // as the client knew it
	period         time.Duration
}

// waits are how long the requests of one queue have waited, in all, and the longest of them, by which limit.
type waits struct {
	bucket, global               time.Duration
	longestBucket, longestGlobal time.Duration
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
	queued   []time.Duration
	refused  int
	refusals []refusals
	waits    []waits
	limited  int
	last     time.Duration

	waiting      []int // now, in each queue
	all          int   // now
	grown        []int // queues in which more may wait than before
	longestQueue int
	mostWaiting  int
}

func newRecord(load *Load) record {
	return record{refusals: make([]refusals, len(load.queues)), waits: make([]waits, len(load.queues)), waiting: make([]int, len(load.queues))}
}

// ask notes that a request wants to be sent.
func (r *record) ask(queue int) {
	r.waiting[queue]++
	r.all++
	r.grown = append(r.grown, queue)
}

// answered notes that it may be, or never will.
func (r *record) answered(queue int) {
	r.waiting[queue]--
	r.all--
}

// wait notes for how long one has waited, and for what.
func (r *record) wait(queue int, waitsFor buckets.WaitsFor, d time.Duration) {
	switch w := &r.waits[queue]; waitsFor {
	case buckets.WaitsForNothing, buckets.WaitsForProbe: // the probe is no limit
	case buckets.WaitsForGlobal:
		w.global, w.longestGlobal = w.global+d, max(w.longestGlobal, d)
	default:
		w.bucket, w.longestBucket = w.bucket+d, max(w.longestBucket, d)
	}
}

// measure looks how long the queues are. It is called when nothing more happens at this moment.
func (r *record) measure() {
	for _, queue := range r.grown {
		r.longestQueue = max(r.longestQueue, r.waiting[queue])
	}
	r.grown = r.grown[:0]
	r.mostWaiting = max(r.mostWaiting, r.all)
}

// serve notes a request that was answered by the server.
func (r *record) serve(queued, at time.Duration) {
	r.queued = append(r.queued, queued)
	r.last = at
}

// refuse notes a request that was not.
func (r *record) refuse(queue int, err error) {
	r.refused++
	q := &r.refusals[queue]
	var tooLong *ratelimits.TooLongError
	if !errors.As(err, &tooLong) {
		return
	}
	q.longest = max(q.longest, tooLong.Wait)
	if tooLong.Global {
		q.global++
		return
	}
	q.bucket++
	if tooLong.Limit > 0 {
		q.limit, q.period = tooLong.Limit, tooLong.Period
	}
}

func (r *replay) result(maxRateLimit time.Duration) Result {
	slices.Sort(r.record.queued)
	return Result{
		MaxRateLimit: maxRateLimit, Requests: r.load.Requests(), Refused: r.record.refused,
		Median: quantile(r.record.queued, 0.5), P99: quantile(r.record.queued, 0.99), Max: quantile(r.record.queued, 1),
		LongestQueue: r.record.longestQueue, MostWaiting: r.record.mostWaiting,
		Makespan: r.record.last, Limited: r.record.limited, refusals: r.record.refusals, waits: r.record.waits, events: r.clock.called,
	}
}

// quantile returns the smallest of the sorted times that so many are not above, 0 of none.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	const slack = 1e-9 // the product is not exact
	n := math.Ceil(part*float64(len(sorted)) - slack)
	return sorted[max(int(n), 1)-1]
}

package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// quota is the limit of every bucket.
var quota = discordsim.Fixed(5, time.Second)

// latency is 10 to 40 ms each way.
var latency = discordsim.Latency{RoundTrip: 50 * time.Millisecond, Jitter: 30 * time.Millisecond}

const (
	// each is the number of callers on the one bucket, and of own buckets, for each process.
	each = 10
	// apart is the time between the first requests of two callers. Simultaneous requests would have no order.
	apart = 10 * time.Millisecond
	// offered is the number of requests per second in an own bucket: two thirds of its limit.
	offered = 3.25
)

// scenario describes the work of the processes, and the targets besides two that all have: every request is answered,
// and there is no 429.
type scenario struct {
	name, about string
	works       []work  // of each process
	certain     float64 // minimum efficiency; 0: no target
	callsEach   float64 // maximum calls to the engine per request; 0: no target
	inOrder     bool    // no request is overtaken, from a bucket's second window on
}

// work has the callers of one process.
type work []caller

// caller makes requests from a time on, each when the one before it was answered.
type caller struct {
	at     time.Duration // since the start
	bucket int
	count  int
}

// all returns the scenarios for the flags.
func (c *shareCommand) all() []scenario {
	return []scenario{{
		name: "one-bucket", about: "all processes with 10 callers each on one bucket of 5 per second",
		works: contested(c.Processes, max(int(c.Length/quota.Period)*quota.Limit, c.Processes*each)), certain: 0.97, inOrder: true,
	}, {
		name: "own-buckets", about: "each process with 10 buckets of its own, 5 per second in each, two thirds used",
		works: own(c.Processes, 0, c.Length, c.Seed), callsEach: 0.1,
	}, {
		name: "foreign-traffic", about: "as own-buckets, but one request in fifty is another process's",
		works: own(c.Processes, 50, c.Length, c.Seed), callsEach: 0.35,
	}}
}

// requests returns how many requests a scenario makes.
func (s *scenario) requests() (n int) {
	for _, caller := range slices.Concat(s.works...) {
		n += caller.count
	}
	return n
}

// contested returns work on one bucket. The first requests come from the processes in turn.
func contested(processes, requests int) []work {
	works := make([]work, processes)
	callers := processes * each
	for i := range callers {
		works[i%processes] = append(works[i%processes], caller{at: time.Duration(i) * apart, count: (requests - i + callers - 1) / callers})
	}
	return works
}

// own returns work at random times in buckets that belong to one process each. One request in foreign comes from
// another process; 0: none.
func own(processes, foreign int, length time.Duration, seed uint64) []work {
	works := make([]work, processes)
	random := rand.New(rand.NewPCG(seed, 3))
	for bucket := range processes * each {
		for at := time.Duration(0); ; {
			at += time.Duration(random.ExpFloat64() / offered * float64(time.Second))
			if at >= length {
				break
			}
			by := bucket / each
			// Draw in any case, so that the times are the same with foreign traffic and without.
			if x, other := random.Float64(), random.Float64(); x*float64(foreign) < 1 && foreign > 0 {
				by = (by + 1 + int(other*float64(processes-1))) % processes
			}
			works[by] = append(works[by], caller{at: at, bucket: bucket, count: 1})
		}
	}
	return works
}

// ideal plans the work of all processes for one client that must be sure before it sends, with the smallest round trip.
// It plans all requests of a caller for its start, which can only make the ideal faster.
func (s *scenario) ideal() (time.Duration, error) {
	arrivals := make(map[int][]time.Duration) // by bucket
	for _, c := range slices.Concat(s.works...) {
		arrivals[c.bucket] = append(arrivals[c.bucket], slices.Repeat([]time.Duration{c.at}, c.count)...)
	}
	var planned []discordsim.Work
	for _, bucket := range slices.Sorted(maps.Keys(arrivals)) {
		slices.Sort(arrivals[bucket])
		planned = append(planned, discordsim.Work{Quota: quota, Offered: arrivals[bucket], Route: "messages"})
	}
	conditions := discordsim.Conditions{RoundTrip: latency.Smallest(), Global: discordsim.Unlimited()}
	plan, err := discordsim.Certain(conditions, planned...)
	return plan.Makespan, err
}

package tune

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Discord describes the simulated server.
type Discord struct {
	// Given are the rules that the caller named. Others apply to all other requests. Preset says that Others are the
	// limits that were measured at Discord.
	Given, Others []discordsim.Rule
	Preset        bool
	// GlobalLimit is the global limit of client and server, in requests per second; 0: none.
	GlobalLimit int
	Latency     discordsim.Latency // uniformly distributed
	Seed        uint64
}

// rule returns the rule of a queue, and whether the caller named it.
func (d *Discord) rule(q *queue) (rule discordsim.Rule, given bool) {
	if i := slices.IndexFunc(d.Given, q.matches); i >= 0 {
		return d.Given[i], true
	}
	if i := slices.IndexFunc(d.Others, q.matches); i >= 0 {
		return d.Others[i], false
	}
	return discordsim.Rule{Quota: discordsim.Unlimited()}, false
}

// limit is a bucket of the server, or the global limit.
type limit struct {
	name     string // of the first route, without tokens
	quota    discordsim.Quota
	requests int // number of requests of the load that need the limit
}

// bucketKey identifies a bucket. It may contain the token of a webhook.
type bucketKey struct {
	hash  string
	major routes.Major
}

// limits returns the limits of a load: all buckets, followed by the global limit. For each queue, it also returns the
// index and the hash of the queue's bucket.
func (d *Discord) limits(l *Load) (limits []limit, bucketOf []int, hashes []string) {
	numbers := make(map[bucketKey]int)
	global := limit{name: "the global limit", quota: load.GlobalQuota(d.GlobalLimit)}
	for i := range l.queues {
		q := &l.queues[i]
		rule, _ := d.rule(q)
		key := bucketKey{cmp.Or(rule.Hash, q.template()), q.route.Major()}
		number, ok := numbers[key]
		if !ok {
			number = len(limits)
			numbers[key] = number
			limits = append(limits, limit{name: q.name(), quota: rule.Quota})
		}
		limits[number].requests += q.requests
		bucketOf, hashes = append(bucketOf, number), append(hashes, key.hash)
		if !q.route.Route().GlobalExempt() {
			global.requests += q.requests
		}
	}
	return append(limits, global), bucketOf, hashes
}

// server counts requests as the simulated Discord does, but does not decide which 429s were avoidable. It returns
// numbers instead of headers, because millions of headers would take most of the time. Limits that no header shows are
// left out.
type server struct {
	load     *Load
	counters []discordsim.Counter // of each limit; nil: unlimited
	bucketOf []int
	hashes   []string
}

func newServer(l *Load, discord *Discord) *server {
	limits, bucketOf, hashes := discord.limits(l)
	s := &server{load: l, bucketOf: bucketOf, hashes: hashes}
	for _, limit := range limits {
		counter, _ := discordsim.NewCounter(limit.quota) // the flags have valid numbers
		s.counters = append(s.counters, counter)
	}
	return s
}

// handle processes a request that arrives at now, and counts it for the global limit first.
func (s *server) handle(now time.Time, queue int) ratelimits.Response {
	global := s.counters[len(s.counters)-1]
	if global != nil && !s.load.queues[queue].route.Route().GlobalExempt() && !global.Take(now, discordsim.Own) {
		return refusal(ratelimits.ClassGlobal, global.State(now))
	}
	response, counter := ratelimits.Response{Status: http.StatusOK}, s.counters[s.bucketOf[queue]]
	if counter == nil {
		return response
	}
	taken := counter.Take(now, discordsim.Own)
	state := counter.State(now)
	if !taken {
		response = refusal(ratelimits.ClassUser, state)
	}
	response.Bucket, response.Limited = s.hashes[queue], true
	response.Limit, response.Remaining, response.ResetAfter = state.Limit, state.Remaining, stated(state.ResetAfter)
	return response
}

func refusal(class ratelimits.Class, state discordsim.State) ratelimits.Response {
	return ratelimits.Response{
		Status: http.StatusTooManyRequests, Class: class, HasRetryAfter: true, RetryAfter: stated(state.RetryAfter),
	}
}

// stated rounds a time as Discord states it: up to whole milliseconds.
func stated(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

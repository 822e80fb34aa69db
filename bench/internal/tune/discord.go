package tune

import (
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Discord describes the simulated server.
type Discord struct {
	Rules []discordsim.Rule
	// Quota is the limit of all routes without a rule.
	Quota discordsim.Quota
	// GlobalLimit is the global limit of client and server, in requests per second; 0: none.
	GlobalLimit int
	Latency     discordsim.Latency // uniformly distributed
	Seed        uint64
}

// Validate returns an error if such a server cannot be simulated.
func (d Discord) Validate() error {
	config := discordsim.Config{Rules: d.Rules, Default: &discordsim.Rule{Path: "**", Quota: d.Quota}, Global: d.global()}
	_, err := discordsim.NewWorld(beginning, config)
	return err
}

func (d Discord) global() discordsim.Quota { return load.GlobalQuota(d.GlobalLimit) }

// server counts requests as the simulated Discord does, but does not judge 429s. It returns numbers instead of headers,
// because millions of headers would take most of the time.
type server struct {
	global   discordsim.Counter   // nil: unlimited
	counters []discordsim.Counter // of each queue; nil: unlimited
	hashes   []string             // of each queue
}

func newServer(l *Load, discord Discord) *server {
	s := &server{global: newCounter(discord.global())}
	for _, q := range l.queues {
		quota := discord.Quota
		if i := slices.IndexFunc(discord.Rules, q.matches); i >= 0 {
			quota = discord.Rules[i].Quota
		}
		s.counters = append(s.counters, newCounter(quota))
		s.hashes = append(s.hashes, q.route.Route().Method()+" "+q.route.Route().Template())
	}
	return s
}

// newCounter returns the counter of a quota, nil if the quota has no limit.
func newCounter(quota discordsim.Quota) discordsim.Counter {
	counter, _ := discordsim.NewCounter(quota) // Validate has checked the quota
	return counter
}

// handle processes a request that arrives at now, and counts it for the global limit first.
func (s *server) handle(now time.Time, queue int) ratelimits.Response {
	if s.global != nil && !s.global.Take(now, discordsim.Own) {
		return refusal(ratelimits.ClassGlobal, s.global.State(now))
	}
	response, counter := ratelimits.Response{Status: http.StatusOK}, s.counters[queue]
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
	return ratelimits.Response{Status: http.StatusTooManyRequests, Class: class, HasRetryAfter: true, RetryAfter: stated(state.RetryAfter)}
}

// stated rounds a time as Discord states it: up to whole milliseconds.
func stated(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

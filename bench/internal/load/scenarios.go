package load

import (
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

var (
	small = discordsim.Fixed(5, time.Second)
	large = discordsim.Fixed(50, time.Second)
)

// Scenarios returns all scenarios in the order in which they are shown.
func Scenarios() []Scenario { return append(undisturbed(), disturbed()...) }

// undisturbed returns the scenarios in which nothing disturbs the client.
func undisturbed() []Scenario {
	return []Scenario{
		burst("fixed-small", "one channel, 5 per second in fixed windows", small, 75),
		burst("fixed-large", "one channel, 50 per second in fixed windows, round trip 100 ms", large, 750).
			but(func(s *Scenario) { s.server.Latency = discordsim.RoundTrip(100 * time.Millisecond) }),
		burst("many-buckets", "40 channels with 5 per second each, under the global limit of 50 per second",
			small, 20).but(func(s *Scenario) {
			s.toChannels(40)
			s.IdealBy = "the simulator's plans for all buckets and the global limit; its windows begin with the work"
		}),
		burst("cold-burst", "1000 requests at once on a route never seen: 100 per second, raised global limit",
			discordsim.Fixed(100, time.Second), 1000).
			but(func(s *Scenario) { s.server.Global = GlobalQuota(500) }),
		burst("cold-unlimited", "100 requests at once on a route never seen, without any limit; round trip 500 ms",
			discordsim.Quota{}, 100).
			but(func(s *Scenario) {
				// The round trip is long and without jitter. Otherwise only jitter and the scheduler would be measured,
				// because the work takes no more than two round trips.
				s.server.Latency, s.server.Global = discordsim.RoundTrip(500*time.Millisecond), discordsim.Unlimited()
				s.IdealBy = "two round trips, because the first request discovers the route"
			}),
		burst("sliding-log", "one channel, 5 per second in a sliding log", discordsim.Sliding(5, time.Second), 75),
		burst("leaky-bucket", "one channel, a leaky bucket of 5 that forgets one every 0.2 s",
			discordsim.Leaky(5, time.Second), 75),
		burst("paced-sliding", "one channel, 5 per second in a sliding log, a message every 210 ms",
			discordsim.Sliding(5, time.Second), 90).
			but(func(s *Scenario) {
				for i := range s.offers {
					s.offers[i].due = time.Duration(i) * 210 * time.Millisecond
				}
				s.work[0].Every = 210 * time.Millisecond
				s.IdealBy = "the simulator's plans for these arrivals"
				s.Targets.P99 = 100 * time.Millisecond
			}),
		burst("one-hash", "two routes with one bucket hash on one channel: 5 per second together",
			small, 2*38).but(func(s *Scenario) {
			path := "/channels/{id}/messages/{id}/reactions/**"
			s.server.Rules = []discordsim.Rule{{Path: path, Hash: "reactions", Quota: small}}
			add := channel(0) + "/900000000000000001/reactions/%F0%9F%91%8D/@me"
			for i := range s.offers {
				s.offers[i] = offer{method: []string{"PUT", "DELETE"}[i%2], path: add}
			}
			s.IdealBy = "the simulator's plans for one bucket with the requests of both routes"
		}),
		burst("slow-network", "one channel, 5 per second in fixed windows, round trip 1.5 s ± 10 ms",
			small, 40).but(func(s *Scenario) {
			s.server.Latency = discordsim.Latency{RoundTrip: 1500 * time.Millisecond, Jitter: 10 * time.Millisecond}
			s.IdealBy = "1 s and the smallest round trip for each window"
		}),
		burst("ordered", "one channel, 5 per second in fixed windows, one request at a time so that none is overtaken",
			small, 75).but(func(s *Scenario) {
			s.IdealBy = "as in fixed-small; the ideal client sends the requests of the last window one after the other"
			s.ideal = slower((75 - 1) % small.Limit) // earlier windows need no additional time
			s.Targets.InOrder = true
		}),
	}
}

// disturbed returns the scenarios in which another client, the server or a clock disturbs the client.
func disturbed() []Scenario {
	noHeaders, garbage := discordsim.NoHeaders(), discordsim.Garbage("NaN")
	noHeaders.Every, garbage.Every = 4, 7
	type state = discordsim.State
	return []Scenario{
		burst("shared-hidden", "one channel, 50 per second; the channel itself takes 10 per 3 s and no header says so",
			large, 60).but(func(s *Scenario) {
			hidden := discordsim.Fixed(10, 3*time.Second)
			s.server.Rules[0].Shared = &discordsim.SharedLimit{Quota: hidden}
			s.work = []discordsim.Work{work(hidden, 60)}
			s.IdealBy = "as if the hidden limit were the bucket's; the ideal client needs one more round trip for each " +
				"hidden window, because a 429 says when the window closes, but not how many requests the next one accepts"
			s.ideal = slower(60/hidden.Limit - 1)
		}),
		burst("global-block", "4 channels with 5 per second each; everything is refused from 3.5 s to 8 s",
			small, 60).but(func(s *Scenario) {
			s.toChannels(4)
			s.server.Blocks = []discordsim.GlobalBlock{{From: 3500 * time.Millisecond, Until: 8 * time.Second}}
			s.IdealBy = "the simulator's plans for the requests before the block; " +
				"the other requests begin half a round trip after the end of the block"
			s.ideal = (*Scenario).blocked
		}),
		burst("clock-ahead", "as fixed-small; the server's clock is 3 s ahead of the client's", small, 50).
			but(func(s *Scenario) { s.server.ClockSkew = 3 * time.Second }),
		burst("clock-behind", "as fixed-small; the server's clock is 3 s behind the client's", small, 50).
			but(func(s *Scenario) { s.server.ClockSkew = -3 * time.Second }),
		burst("foreign-consumer",
			"one channel, 5 per second in aligned windows; another process with the same token takes 2 of them",
			discordsim.Aligned(5, time.Second, 0), 45).but(func(s *Scenario) {
			// The foreign requests come first in every window, so that our client never has a whole window.
			s.server.Foreign = []discordsim.ForeignUse{{
				Request: discordsim.Request{Method: "POST", Path: channel(0), Authorization: authorization},
				Count:   2, From: time.Millisecond, Every: time.Second,
			}}
			s.IdealBy = "the simulator's plans for our requests and for the accepted requests of the other process"
		}),
		burst("missing-headers",
			"as fixed-small; every 4th answer lacks the limit headers, every 7th has NaN in all of them", small, 75).
			but(faulty(noHeaders, garbage)),
		burst("lying-headers",
			"as missing-headers; besides, every 9th answer promises a full bucket, every 11th a reset in 0.1 s", small, 75).
			but(faulty(noHeaders, garbage,
				discordsim.Fault{Every: 9, State: func(s state) state { s.Remaining = s.Limit; return s }},
				discordsim.Fault{Every: 11, State: func(s state) state { s.ResetAfter = 100 * time.Millisecond; return s }})),
		// In February 2026, Discord gave such answers to channel messages, and more often than this scenario.
		burst("phantom-limit", "as fixed-small; every 25th answer says 999 of 1000 remain; the limit is 5", small, 60).
			but(faulty(discordsim.Fault{Every: 25, State: func(s state) state { s.Limit, s.Remaining = 1000, 999; return s }})).
			but(func(s *Scenario) {
				s.IdealBy = "none: a client that believes that a limit can change is refused, " +
					"and cannot tell the end of the phantom from another change"
				s.ideal, s.Targets = nil, Targets{}
			}),
	}
}

// faulty returns a function that makes the responses of a scenario faulty.
func faulty(faults ...discordsim.Fault) func(*Scenario) {
	return func(s *Scenario) {
		s.server.Rules[0].Faults = faults
		s.IdealBy = "as in fixed-small, because enough answers are true to know the bucket"
	}
}

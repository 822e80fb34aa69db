package load

import (
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// saturated are the scenarios in which nobody and nothing disturbs the client.
func saturated() []Scenario {
	return []Scenario{
		burst("fixed-small", "one channel, 5 per second in fixed windows", small, 75),
		fixedLarge(),
		manyBuckets(),
		coldBurst(),
		coldUnlimited(),
		burst("sliding-log", "one channel, 5 per second in a sliding log", discordsim.Sliding(5, time.Second), 75),
		burst("leaky-bucket", "one channel, a leaky bucket of 5 that forgets one every 0.2 s", discordsim.Leaky(5, time.Second), 75),
		pacedSliding(),
		oneHash(),
		slowNetwork(),
		ordered(),
	}
}

// burst is a number of messages to one channel, all at once.
func burst(name, about string, quota discordsim.Quota, count int) Scenario {
	return Scenario{
		Name: name, About: about, IdealBy: byPlan, Targets: usualTargets,
		streams: messages(count),
		config:  discord(rule(quota)),
		ideal:   planned(usualConditions, work(quota, count)),
	}
}

func fixedLarge() Scenario {
	s := burst("fixed-large", "one channel, 50 per second in fixed windows, round trip 100 ms", large, 750)
	far := discordsim.RoundTrip(100 * time.Millisecond)
	s.config = discord(rule(large), func(c *discordsim.Config) { c.Latency = far })
	s.ideal = planned(discordsim.Conditions{RoundTrip: far.Smallest()}, work(large, 750))
	s.Targets.Omniscient = 0.90 // a certain client needs 1.1 s for each window
	return s
}

func manyBuckets() Scenario {
	const channels, each = 40, 20
	s := Scenario{
		Name: "many-buckets", About: "40 channels with 5 per second each, under the global limit of 50 per second",
		IdealBy: "the simulator's plans for all buckets and the global limit; its windows begin with the work",
		Targets: usualTargets,
		config:  discord(rule(small)),
	}
	var all []discordsim.Work
	for n := range channels {
		s.streams = append(s.streams, stream{method: "POST", path: channel(n), count: each})
		all = append(all, work(small, each))
	}
	s.ideal = planned(usualConditions, all...)
	return s
}

func coldBurst() Scenario {
	quota := discordsim.Fixed(100, time.Second)
	server, client := globalLimit(500)
	s := burst("cold-burst", "1000 requests at once on a route never seen: 100 per second, raised global limit", quota, 1000)
	s.config = discord(rule(quota), server)
	s.options = client
	s.ideal = planned(discordsim.Conditions{RoundTrip: usual.Smallest(), Global: globalQuota(500, 0)}, work(quota, 1000))
	return s
}

func coldUnlimited() Scenario {
	server, client := globalLimit(0)
	// Long and without jitter: the work is over after two round trips, and nothing but their spread and the scheduler
	// would be measured.
	far := discordsim.RoundTrip(500 * time.Millisecond)
	s := burst("cold-unlimited", "100 requests at once on a route never seen, without any limit; round trip 500 ms", discordsim.Quota{}, 100)
	s.IdealBy = "omniscient: one round trip; certain: two, as the first request discovers the route"
	s.config = discord(rule(discordsim.Quota{}), server, func(c *discordsim.Config) { c.Latency = far })
	s.options = client
	s.ideal = planned(discordsim.Conditions{RoundTrip: far.Smallest(), Global: discordsim.Unlimited()}, work(discordsim.Quota{}, 100))
	s.Targets.Omniscient = 0.45
	return s
}

func pacedSliding() Scenario {
	const count, every = 90, 210 * time.Millisecond
	quota := discordsim.Sliding(5, time.Second)
	arrivals := work(quota, count)
	arrivals.Every = every
	return Scenario{
		Name: "paced-sliding", About: "one channel, 5 per second in a sliding log, a message every 210 ms",
		IdealBy: "the simulator's plans for these arrivals", Targets: Targets{
			Certain: leastCertain, Omniscient: leastOmniscient, P99: 100 * time.Millisecond,
		},
		streams: []stream{{method: "POST", path: channel(1), count: count, every: every}},
		config:  discord(rule(quota)),
		ideal:   planned(usualConditions, arrivals),
	}
}

func oneHash() Scenario {
	const count = 38
	reactions := discordsim.Rule{Path: "/channels/{id}/messages/{id}/reactions/**", Hash: "reactions", Quota: small}
	add := channel(1) + "/900000000000000001/reactions/%F0%9F%91%8D/@me"
	return Scenario{
		Name: "one-hash", About: "two routes with one bucket hash on one channel: 5 per second together",
		IdealBy: "the simulator's plans for one bucket with the requests of both routes", Targets: usualTargets,
		streams: []stream{{method: "PUT", path: add, count: count}, {method: "DELETE", path: add, count: count}},
		config:  discord(reactions),
		ideal:   planned(usualConditions, work(small, 2*count)),
	}
}

func slowNetwork() Scenario {
	far := discordsim.Latency{RoundTrip: 1500 * time.Millisecond, Jitter: 10 * time.Millisecond}
	s := burst("slow-network", "one channel, 5 per second in fixed windows, round trip 1.5 s ± 10 ms", small, 40)
	s.IdealBy = "certain: 1 s and the smallest round trip for each window; no client can come near the omniscient one"
	s.config = discord(rule(small), func(c *discordsim.Config) { c.Latency = far })
	s.ideal = planned(discordsim.Conditions{RoundTrip: far.Smallest()}, work(small, 40)).certainOnly()
	s.Targets.Omniscient = 0
	return s
}

func ordered() Scenario {
	s := burst("ordered", "one channel, 5 per second in fixed windows, one request at a time so that none is overtaken", small, 75)
	s.IdealBy = "as in fixed-small; the certain client sends those of the last window one after the other"
	s.options = []buckets.Option{buckets.WithOrdered()}
	s.ideal = inTurn(small, 75)
	s.Targets.InOrder = true
	return s
}

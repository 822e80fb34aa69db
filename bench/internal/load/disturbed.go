package load

import (
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// disturbed are the scenarios in which somebody else, the server or a clock gets in the way.
func disturbed() []Scenario {
	return []Scenario{
		sharedHidden(),
		globalBlock(),
		clock("clock-ahead", "the server's clock is 3 s ahead of the client's", 3*time.Second),
		clock("clock-behind", "the server's clock is 3 s behind the client's", -3*time.Second),
		foreignConsumer(),
		missingHeaders(),
		lyingHeaders(),
		phantomLimit(),
	}
}

func sharedHidden() Scenario {
	const count = 60
	secret := discordsim.Fixed(10, 3*time.Second)
	limited := rule(large)
	limited.Shared = &discordsim.SharedLimit{Quota: secret}
	s := burst("shared-hidden", "one channel, 50 per second; the channel itself takes 10 per 3 s and no header says so", large, count)
	s.IdealBy = "as if the hidden limit were the bucket's; the certain client needs one more round trip for each of its windows, " +
		"as it is told when one request is accepted and not how many"
	s.config = discord(limited)
	s.ideal = hidden(secret, count)
	return s
}

func globalBlock() Scenario {
	const channels, each = 4, 60
	block := discordsim.GlobalBlock{From: 3500 * time.Millisecond, Until: 8 * time.Second}
	s := Scenario{
		Name: "global-block", About: "4 channels with 5 per second each; everything is refused from 3.5 s to 8 s",
		IdealBy: "what comes through before the block by the simulator's plans; the rest as work that begins when it ends, " +
			"for the certain client one way later",
		Targets: usualTargets,
		config:  discord(rule(small), func(c *discordsim.Config) { c.Blocks = []discordsim.GlobalBlock{block} }),
	}
	var all []discordsim.Work
	for n := range channels {
		s.streams = append(s.streams, stream{method: "POST", path: channel(n), count: each})
		all = append(all, work(small, each))
	}
	s.ideal = blocked(block, all...)
	return s
}

func clock(name, about string, skew time.Duration) Scenario {
	s := burst(name, "as fixed-small; "+about, small, 50)
	s.config = discord(rule(small), func(c *discordsim.Config) { c.ClockSkew = skew })
	return s
}

func foreignConsumer() Scenario {
	const count = 45
	// They come first in every window, so that there is never all of it for us.
	others := discordsim.ForeignUse{
		Request: discordsim.Request{Method: "POST", Path: channel(1), Authorization: authorization},
		Count:   2, From: time.Millisecond, Every: time.Second,
	}
	s := burst("foreign-consumer", "one channel, 5 per second in aligned windows; another process with the same token takes 2 of them", small, count)
	s.IdealBy = "the simulator's plans for our requests and those of the others that were accepted"
	s.config = func(start time.Time) discordsim.Config {
		quota := discordsim.Aligned(5, time.Second, phase(start))
		return discord(rule(quota), func(c *discordsim.Config) { c.Foreign = []discordsim.ForeignUse{others} })(start)
	}
	s.ideal = contested(discordsim.Aligned(5, time.Second, 0), count)
	return s
}

// withFaults is a burst to a small bucket whose answers are not what they should be.
func withFaults(name, about string, count int, faults ...discordsim.Fault) Scenario {
	s := burst(name, about, small, count)
	s.IdealBy = "as in fixed-small: enough answers are true to know the bucket by"
	faulty := rule(small)
	faulty.Faults = faults
	s.config = discord(faulty)
	return s
}

func missingHeaders() Scenario {
	return withFaults("missing-headers", "as fixed-small; every 4th answer lacks the limit headers, every 7th has NaN in all of them", 75,
		withEvery(4, discordsim.NoHeaders()), withEvery(7, discordsim.Garbage("NaN")))
}

func lyingHeaders() Scenario {
	return withFaults("lying-headers", "as missing-headers; besides, every 9th answer promises a full bucket, every 11th a reset in 0.1 s", 75,
		withEvery(4, discordsim.NoHeaders()), withEvery(7, discordsim.Garbage("NaN")),
		discordsim.Fault{Every: 9, State: func(s discordsim.State) discordsim.State { s.Remaining = s.Limit; return s }},
		discordsim.Fault{Every: 11, State: func(s discordsim.State) discordsim.State { s.ResetAfter = 100 * time.Millisecond; return s }})
}

// phantomLimit is what was seen of Discord's channel messages in February 2026, with fewer phantoms.
func phantomLimit() Scenario {
	s := withFaults("phantom-limit", "as fixed-small; every 25th answer says 999 of 1000 remain where 5 are all there are", 60,
		discordsim.Fault{Every: 25, State: func(s discordsim.State) discordsim.State { s.Limit, s.Remaining = 1000, 999; return s }})
	s.IdealBy = "none: whoever believes that a limit can change is refused, and cannot tell the end of it from another change"
	s.ideal, s.Targets = nil, Targets{}
	return s
}

func withEvery(n int, fault discordsim.Fault) discordsim.Fault {
	fault.Every = n
	return fault
}

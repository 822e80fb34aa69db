package load

import (
	"fmt"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

var (
	// usual is the latency of every scenario that does not say otherwise.
	usual           = discordsim.Latency{RoundTrip: 20 * time.Millisecond, Jitter: 10 * time.Millisecond}
	usualConditions = discordsim.Conditions{RoundTrip: usual.Smallest()}

	small = discordsim.Fixed(5, time.Second)
	large = discordsim.Fixed(50, time.Second)
)

const (
	// authorization is the credential of all simulated requests.
	authorization = "Bot simulated"

	byPlan = "the simulator's plans for this bucket, with the smallest round trip; the route is unknown at first"

	leastCertain    = 0.97
	leastOmniscient = 0.95
)

var usualTargets = Targets{Certain: leastCertain, Omniscient: leastOmniscient}

// Scenarios returns them in the order in which they are shown.
func Scenarios() []Scenario {
	return append(saturated(), disturbed()...)
}

// channel is the path of a channel's messages.
func channel(n int) string {
	return fmt.Sprintf("/api/v10/channels/%d/messages", 900_000_000_000_000_000+n)
}

// messages is a burst of messages to one channel.
func messages(count int) []stream {
	return []stream{{method: "POST", path: channel(1), count: count}}
}

// rule is the bucket of messages.
func rule(quota discordsim.Quota) discordsim.Rule {
	return discordsim.Rule{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: quota}
}

// discord is a simulated Discord with one rule and its usual latency. The server's seconds, in which the global limit is
// counted, begin when the work begins.
func discord(rule discordsim.Rule, changes ...func(*discordsim.Config)) func(time.Time) discordsim.Config {
	return func(start time.Time) discordsim.Config {
		config := discordsim.Config{
			Rules:   []discordsim.Rule{rule},
			Latency: usual,
			Global:  discordsim.Aligned(buckets.DefaultGlobalLimit, time.Second, phase(start)),
		}
		for _, change := range changes {
			change(&config)
		}
		return config
	}
}

// phase moves aligned seconds so that one of them begins at a moment.
func phase(start time.Time) time.Duration { return time.Duration(start.UnixNano()) % time.Second }

func work(quota discordsim.Quota, count int) discordsim.Work {
	return discordsim.Work{Quota: quota, Count: count, Route: "messages"}
}

// globalLimit is another global limit than Discord's usual one, of which the client is told.
func globalLimit(perSecond int) (server func(*discordsim.Config), client []buckets.Option) {
	return func(c *discordsim.Config) { c.Global = globalQuota(perSecond, c.Global.Phase) }, []buckets.Option{buckets.WithGlobalLimit(perSecond)}
}

// globalQuota counts in seconds that begin at a phase; 0: no limit.
func globalQuota(perSecond int, phase time.Duration) discordsim.Quota {
	if perSecond == 0 {
		return discordsim.Unlimited()
	}
	return discordsim.Aligned(perSecond, time.Second, phase)
}

package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Config has the flags of a load to a Discord simulated in this process.
type Config struct {
	Requests     int           `group:"Load" range:"1..1000000" placeholder:"NUMBER" help:"${about_requests}"`
	Length       time.Duration `group:"Load" range:"0s..744h" default:"0s" placeholder:"DURATION" help:"${about_length}"`
	Rate         float64       `group:"Load" range:"0.01..1000" default:"16" placeholder:"NUMBER" help:"${about_rate}"`
	Faults       bool          `group:"Load" help:"${about_faults}"`
	MaxRateLimit time.Duration `group:"Load" range:"0s..24h" default:"5m" help:"${about_max_rate_limit}"`
	GlobalLimit  int           `group:"Load" range:"0..1000000" default:"50" help:"${about_global_limit}"`

	Buckets int `group:"Simulated Discord" range:"1..100000" default:"10" help:"${about_buckets}"`
	Bucket  `embed:"" set:"window=1s"`
	Network `embed:"" set:"jitter=10ms"`
	// Preset reports whether the simulated Discord has the limits that were measured at Discord. If so, Bucket has no
	// effect.
	Preset bool `kong:"-"`
}

// Help has the texts of help that are too long for the tags of the flags, as variables for kong.
var Help = map[string]string{
	"about_requests": "Number of requests, 500 by default.",
	"about_length":   "Instead of a burst, send requests over this time, to channels that change, and look for leaks.",
	"about_rate":     "Requests per second with -length.",
	"about_faults": "With -length, let errors, lost connections, wrong headers, blocks and cancelled requests " +
		"disturb the load.",
	"about_max_rate_limit": "Longest predicted wait that the client accepts. A request that would wait longer is refused.",
	"about_global_limit":   "Requests per second in total, for client and simulator, 0 for no limit.",
	"about_buckets":        "Channels to which the requests are sent in turn, each with its own bucket.",

	"about_limit": "Requests per window in each bucket.",
	"about_kind": "How buckets refill: fixed (all places when the window ends), sliding (each place a window after " +
		"its request), or leaky (one place every window/limit).",
	"about_jitter": "Largest difference of a round trip from the mean; at most the latency.",
}

// Bucket has the flags for the limits of a simulated Discord.
type Bucket struct {
	Limit  int           `group:"Simulated Discord" range:"1..1000000" default:"5" help:"${about_limit}"`
	Window time.Duration `group:"Simulated Discord" range:"1ms..24h" default:"${window}" help:"Length of the window."`
	Kind   string        `group:"Simulated Discord" enum:"fixed,sliding,leaky" default:"fixed" help:"${about_kind}"`
}

// Quota returns a limit of the kind b.Kind.
func (b *Bucket) Quota(limit int, window time.Duration) discordsim.Quota {
	switch b.Kind {
	case "sliding":
		return discordsim.Sliding(limit, window)
	case "leaky":
		return discordsim.Leaky(limit, window)
	}
	return discordsim.Fixed(limit, window)
}

// Network has the flags for the round trips to a simulated Discord.
type Network struct {
	Latency time.Duration `group:"Simulated Discord" range:"0s..1m" default:"${latency}" help:"Mean round trip."`
	Jitter  time.Duration `group:"Simulated Discord" range:"0s..1m" default:"${jitter}" help:"${about_jitter}"`
	Seed    uint64        `group:"Simulated Discord" default:"1" help:"Seed of the random numbers."`
}

// Check returns an error if the jitter exceeds the latency.
func (n *Network) Check() error {
	if n.Jitter > n.Latency {
		return fmt.Errorf("-jitter is %v: expected at most the latency, which is %v", n.Jitter, n.Latency)
	}
	return nil
}

// RoundTrips returns the latency for the simulator.
func (n *Network) RoundTrips() discordsim.Latency {
	return discordsim.Latency{RoundTrip: n.Latency, Jitter: n.Jitter}
}

// Scenario returns the load as a scenario without targets.
func (c Config) Scenario() Scenario {
	quota := c.Quota(c.Limit, c.Window)
	if c.Length > 0 {
		c.Requests = max(int(c.Rate*c.Length.Seconds()), 1)
	}
	s := burst("", strings.Join(c.about(), "\n"), quota, c.Requests)
	s.config, s.Targets = c, Targets{}
	s.options = []httpclient.Option{httpclient.WithMaxRateLimit(c.MaxRateLimit)}
	s.server.Latency, s.server.Global = c.RoundTrips(), GlobalQuota(c.GlobalLimit)
	channels := min(c.Buckets, c.Requests)
	switch {
	case c.Length > 0:
		s.mixed(c.Requests, channels, channelLife)
		s.spread(c.Length, c.Seed)
	case c.Preset:
		s.mixed(c.Requests, channels, 0)
	default:
		s.offers, s.work = messages(c.Requests, channels), nil
		for n := range channels {
			s.work = append(s.work, work(quota, (c.Requests-n+channels-1)/channels))
		}
	}
	if c.Faults {
		s.disturb(c.Length)
	}
	return s
}

// about describes the load.
func (c *Config) about() []string {
	atOnce := "at once"
	requests, longest := report.Counted(c.Requests, "request"), report.Setting(c.MaxRateLimit)
	limits := QuotaText(c.Quota(c.Limit, c.Window)) + " in each channel; " + GlobalText(c.GlobalLimit)
	if c.Preset {
		limits = "8 routes with limits as measured at Discord, reactions open late; " + GlobalText(c.GlobalLimit)
	}
	if c.Length > 0 {
		atOnce, requests = "over "+report.Time(c.Length).String(), report.Counted(c.Requests, "request")
	}
	if c.Faults {
		atOnce += ", disturbed by faults"
	}
	return []string{
		fmt.Sprintf("%s, %s, to %s of a simulated Discord on this machine",
			requests, atOnce, report.Counted(c.Buckets, "channel")),
		limits,
		fmt.Sprintf("%s; max rate limit %s; seed %d", LatencyText(c.RoundTrips()), longest, c.Seed),
	}
}

// QuotaText describes a limit.
func QuotaText(q discordsim.Quota) string {
	if q.Limit == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%d per %s (%s)", q.Limit, report.Setting(q.Period), kindName(q))
}

// GlobalText describes a global limit; 0: none.
func GlobalText(limit int) string {
	if limit == 0 {
		return "no global limit"
	}
	return fmt.Sprintf("at most %d per second in all", limit)
}

// LatencyText describes the round trips to a simulated Discord.
func LatencyText(l discordsim.Latency) string {
	return fmt.Sprintf("round trip %s ± %s", report.Setting(l.RoundTrip), report.Setting(l.Jitter))
}

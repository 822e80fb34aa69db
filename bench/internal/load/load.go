package load

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Config is a load that flags describe: a burst of requests.
type Config struct {
	Requests     int
	Concurrency  int // requests handed to the client at a time; 0: all at once
	MaxRateLimit time.Duration
	GlobalLimit  int // requests per second; 0: none
	// Simulated is used if Real is nil.
	Simulated Simulated
	Real      *Real
}

// Simulated is a Discord in this process. The requests go to its channels in turn.
type Simulated struct {
	Channels int
	Quota    discordsim.Quota // of each channel
	Latency  discordsim.Latency
	Seed     uint64
}

// Real is a server that somebody else runs. Only GET requests are sent to it.
type Real struct {
	Target *url.URL
	Path   string
	Token  string // value of the Authorization header; may be empty
}

// Scenario is the load as a scenario that wants nothing but answers.
func (c Config) Scenario() Scenario {
	s := burst("", strings.Join(c.about(), "\n"), c.Simulated.Quota, c.Requests)
	s.config, s.Targets = c, Targets{}
	s.options = []httpclient.Option{httpclient.WithMaxRateLimit(c.MaxRateLimit)}
	s.server.Latency, s.server.Global = c.Simulated.Latency, GlobalQuota(c.GlobalLimit)
	if c.Real != nil {
		for i := range s.offers {
			s.offers[i] = offer{method: http.MethodGet, path: c.Real.Path}
		}
		s.options = append(s.options,
			httpclient.WithHosts(func(string) bool { return true }), // the target is Discord, or stands in for it
			httpclient.WithServer(func(string) string { return "" }))
		return s
	}
	channels := min(c.Simulated.Channels, c.Requests)
	s.offers, s.work = messages(c.Requests, channels), nil
	for n := range channels {
		s.work = append(s.work, work(c.Simulated.Quota, (c.Requests-n+channels-1)/channels))
	}
	return s
}

// title is what the page of a load is headed.
func (c *Config) title() string {
	requests := report.Counted(c.Requests, "request")
	if c.Real != nil {
		return requests + " to " + c.Real.Target.Host
	}
	return requests + " to " + report.Counted(c.Simulated.Channels, "simulated channel")
}

// about says what was asked for. It contains neither the token nor the parameters of the path.
func (c *Config) about() []string {
	atOnce := "at once"
	if c.Concurrency > 0 {
		atOnce = fmt.Sprintf("%d at a time", c.Concurrency)
	}
	requests, longest := report.Counted(c.Requests, "request"), report.Setting(c.MaxRateLimit)
	if c.Real != nil {
		route := "GET"
		if compiled, err := routes.Match("GET", c.Real.Path); err == nil {
			route = compiled.Route().String()
		}
		return []string{
			fmt.Sprintf("%s, %s, to %s on %s", requests, atOnce, route, c.Real.Target),
			fmt.Sprintf("%s; max rate limit %s", globalText(c.GlobalLimit), longest),
		}
	}
	s := c.Simulated
	return []string{
		fmt.Sprintf("%s, %s, to %s of a simulated Discord on this machine", requests, atOnce, report.Counted(s.Channels, "channel")),
		LimitsText(s.Quota, "channel", c.GlobalLimit),
		fmt.Sprintf("%s; max rate limit %s; seed %d", LatencyText(s.Latency), longest, s.Seed),
	}
}

// LimitsText says how a simulated Discord limits.
func LimitsText(quota discordsim.Quota, each string, globalLimit int) string {
	how := map[discordsim.Kind]string{
		discordsim.KindFixed: "fixed window", discordsim.KindSliding: "sliding window", discordsim.KindLeaky: "leaky bucket",
	}[quota.Kind]
	return fmt.Sprintf("%d per %s in each %s (%s); %s", quota.Limit, report.Setting(quota.Period), each, how, globalText(globalLimit))
}

func globalText(limit int) string {
	if limit == 0 {
		return "no global limit"
	}
	return fmt.Sprintf("at most %d per second in all", limit)
}

// LatencyText says how far away it is.
func LatencyText(l discordsim.Latency) string {
	return fmt.Sprintf("round trip %s ± %s", report.Setting(l.RoundTrip), report.Setting(l.Jitter))
}

package load

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Scenario is a list of requests to a server, and the targets of the client. Without a name it is a load from flags.
type Scenario struct {
	Name string
	// About says what happens, in one line or several.
	About string
	// IdealBy says how the ideal is computed, or why none is stated.
	IdealBy string
	Targets Targets

	offers  []offer                                           // in the order of time
	server  discordsim.Config                                 // its aligned windows begin with the work
	work    []discordsim.Work                                 // what the ideal client has to do
	ideal   func(*Scenario, discordsim.Report) (Ideal, error) // nil: none is stated
	options []httpclient.Option                               // of the client
	config  Config                                            // if described by flags
}

// offer is one request to be made.
type offer struct {
	due          time.Duration // since the start
	method, path string
	process      int // the process that makes the request, if several processes share limits
}

// Targets are the targets of a scenario, besides the two targets of every scenario: every request is answered, and no
// 429 is avoidable.
type Targets struct {
	// Efficiency is the minimum efficiency; 0: no target.
	Efficiency float64
	// P99 bounds the 99th percentile of the time spent queued; 0: no target.
	P99 time.Duration
	// InOrder forbids that a request overtakes another one of its bucket.
	InOrder bool
}

// Requests returns how many requests the scenario makes.
func (s *Scenario) Requests() int { return len(s.offers) }

// burst returns a scenario of messages to one channel, all at once. There are no retries and no timeouts, so that only
// the limiter is judged.
func burst(name, about string, quota discordsim.Quota, count int) Scenario {
	return Scenario{
		Name: name, About: about, Targets: Targets{Efficiency: leastEfficiency},
		IdealBy: "the simulator's plans for this bucket, with the smallest round trip; the route is unknown at first",
		server: discordsim.Config{
			Rules:   []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Hash: "messages", Quota: quota}},
			Latency: discordsim.Latency{RoundTrip: 20 * time.Millisecond, Jitter: 10 * time.Millisecond},
			Global:  GlobalQuota(buckets.DefaultGlobalLimit),
		},
		offers: messages(count, 1),
		work:   []discordsim.Work{work(quota, count)},
		ideal:  (*Scenario).planned,
		options: []httpclient.Option{
			httpclient.WithAttempts(httpclient.Attempts{Retries: httpclient.NoRetries, Timeout: -1}),
		},
	}
}

// leastEfficiency is the minimum efficiency of most scenarios.
const leastEfficiency = 0.97

// but returns the scenario after a change.
func (s Scenario) but(change func(*Scenario)) Scenario {
	change(&s)
	return s
}

// toChannels makes the scenario send its requests to each of n channels, which take turns.
func (s *Scenario) toChannels(n int) {
	s.offers = messages(s.Requests()*n, n)
	s.work = slices.Repeat(s.work, n)
}

// messages returns the given number (count) of requests, which go to the channels in turn.
func messages(count, channels int) []offer {
	offers := make([]offer, count)
	for i := range offers {
		offers[i] = offer{method: http.MethodPost, path: channel(i % channels)}
	}
	return offers
}

const firstChannel = 900_000_000_000_000_000

// channel returns the path of a channel's messages.
func channel(n int) string {
	return fmt.Sprintf("/api/v10/channels/%d/messages", firstChannel+n)
}

func work(quota discordsim.Quota, count int) discordsim.Work {
	return discordsim.Work{Quota: quota, Count: count, Route: "messages"}
}

// GlobalQuota returns a global limit that counts in aligned seconds. 0 means no limit.
func GlobalQuota(perSecond int) discordsim.Quota {
	if perSecond == 0 {
		return discordsim.Unlimited()
	}
	return discordsim.Aligned(perSecond, time.Second, 0)
}

// begin returns the server's configuration for a run that begins now. The aligned windows also begin now.
func (s *Scenario) begin(settings Settings) discordsim.Config {
	config := s.server
	config.Seed = settings.Seed
	if settings.RealTime {
		config.Tolerance = stallTolerated
	}
	phase := time.Duration(time.Now().UnixNano()) % time.Second
	config.Global.Phase += phase
	config.Rules = slices.Clone(config.Rules)
	for i := range config.Rules {
		if quota := &config.Rules[i].Quota; quota.Aligned {
			quota.Phase += phase
		}
	}
	return config
}

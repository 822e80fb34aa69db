package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// userAgent has the form that Discord asks for.
const userAgent = "DiscordBot (https://github.com/ratelight/ratelight, bench)"

// Config says what to send and where.
type Config struct {
	Requests     int
	Concurrency  int // requests handed to the client at a time; 0: all at once
	MaxRateLimit time.Duration
	GlobalLimit  int // requests per second; 0: none
	// Simulated is used if Real is nil.
	Simulated Simulated
	Real      *Real
	// Done is called for every request that has an outcome, one call at a time. It may be nil.
	Done func()
	// Record makes a Result.Log.
	Record bool

	inProcess bool // no sockets, for tests in virtual time
}

// Simulated is a Discord on the loopback interface. The requests go to its channels in turn.
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

// Run sends all requests and waits for their outcomes. When the context ends it sends no more, waits a moment for what is
// under way, and returns what was measured until then. The error is about a configuration that makes no sense, or a
// machine that does not let us listen.
func Run(ctx context.Context, config Config) (Result, error) {
	ideal, err := config.Ideal()
	if err != nil {
		return Result{}, err
	}
	log := report.NewLog(config.Record)
	to := destination{base: sockets(), offer: config.Real.offer}
	if config.Real == nil {
		if to, err = config.listen(log); err != nil {
			return Result{}, err
		}
		defer to.simulator.Close()
	}
	r := newRun(config.Requests, log, to.base,
		httpclient.WithHosts(func(string) bool { return true }), // the target is Discord, or stands in for it
		httpclient.WithServer(func(string) string { return "" }),
		httpclient.WithMaxRateLimit(config.MaxRateLimit),
		httpclient.WithBuckets(buckets.WithGlobalLimit(config.GlobalLimit), buckets.WithLogger(nil)),
	)
	r.done, r.secret, r.mayFail = config.Done, config.secret(), true
	r.sendAll(ctx, cmp.Or(config.Concurrency, config.Requests), false, to.offer)
	result := r.end(ctx, to.simulator, 0)
	result.Ideal = ideal
	if result.Answered < result.Requests && ideal.Missing == "" {
		result.Ideal = Ideal{Missing: "not stated, as not all requests were answered"}
	}
	return result, nil
}

// destination is where requests go.
type destination struct {
	base      http.RoundTripper  // the transport below ours
	offer     func(n int) offer  // the n-th request, counted from 0
	simulator *discordsim.Server // nil: a real server
}

// sockets returns a transport that keeps the connections of a burst.
func sockets() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 1000
	return base
}

// listen starts a simulated Discord. Its seconds, in which the global limit is counted, begin now.
func (c *Config) listen(log *report.Log) (to destination, err error) {
	s := c.Simulated
	simulator := discordsim.Config{
		Rules:  []discordsim.Rule{{Method: http.MethodPost, Path: "/channels/{id}/messages", Quota: s.Quota}},
		Global: GlobalQuota(c.GlobalLimit, phase(time.Now())), Latency: s.Latency, Seed: s.Seed,
	}
	log.Observe(&simulator)
	server, err := discordsim.New(simulator)
	if err != nil {
		return to, err
	}
	to = destination{server.RoundTripper(), nil, server}
	baseURL := discordsim.BaseURL
	if !c.inProcess {
		to.base = sockets()
		if baseURL, err = server.Listen(); err != nil {
			_ = server.Close() // the reason is err
			return to, fmt.Errorf("simulated Discord: %w", err)
		}
	}
	to.offer = func(n int) offer { return message(http.MethodPost, baseURL+channel(n%s.Channels), n+1) }
	return to, nil
}

// message is a request to a simulated Discord, at once, which has this place in the order of all.
func message(method, url string, sequence int) offer {
	return offer{0, func(ctx context.Context) (*http.Request, error) {
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(fmt.Sprintf(`{"content":"message %d"}`, sequence)))
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", authorization)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(discordsim.SequenceHeader, strconv.Itoa(sequence))
		return request, nil
	}}
}

// secret is the token that is sent, empty if there is none.
func (c *Config) secret() string {
	if c.Real == nil {
		return ""
	}
	token := c.Real.Token
	if _, value, _ := strings.Cut(token, " "); value != "" {
		token = value // what follows "Bot"
	}
	return token
}

func (r *Real) offer(int) offer { return offer{0, r.request} }

func (r *Real) request(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.Target.String()+r.Path, nil)
	if err != nil {
		return nil, errors.New("the path cannot be requested") // the original error repeats it, and it may contain a token
	}
	request.Header.Set("User-Agent", userAgent)
	if r.Token != "" {
		request.Header.Set("Authorization", r.Token)
	}
	return request, nil
}

// Package load sends a burst of requests through Ratelight's transport to a server, simulated or real, and measures it.
package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// grace is how long what is under way may go on after an interruption.
	grace = 2 * time.Second
	// userAgent has the form that Discord asks for.
	userAgent = "DiscordBot (https://github.com/ratelight/ratelight, bench)"
)

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
	// Trace records the run; nil: nothing is recorded.
	Trace *trace.Trace

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

// server is where requests go.
type server interface {
	// base is the transport below ours.
	base() http.RoundTripper
	// request makes the n-th request, counted from 0.
	request(ctx context.Context, n int) (*http.Request, error)
	// report adds what only the server knows to a result.
	report(*Result)
	close()
}

// Run sends all requests and waits for their outcomes. When the context ends it sends no more, waits a moment for what is
// under way, and returns what was measured until then. The error is about a configuration that makes no sense, or a
// machine that does not let us listen.
func Run(ctx context.Context, config Config) (Result, error) {
	ideal, err := config.Ideal()
	if err != nil {
		return Result{}, err
	}
	server, err := newServer(config)
	if err != nil {
		return Result{}, err
	}
	defer server.close()
	m := meter.New()
	if config.Trace != nil {
		m.Observe(config.Trace.Passage)
	}
	transport := httpclient.NewTransport(
		httpclient.WithBase(m.Below(server.base())),
		httpclient.WithHosts(func(string) bool { return true }), // the target is Discord, or stands in for it
		httpclient.WithServer(func(string) string { return "" }),
		httpclient.WithMaxRateLimit(config.MaxRateLimit),
		httpclient.WithBuckets(buckets.WithGlobalLimit(config.GlobalLimit), buckets.WithLogger(nil)),
	)
	defer transport.Close()
	defer transport.CloseIdleConnections()

	r := &run{config: config, server: server, meter: m, client: newClient(transport), result: newResult(config.Requests)}
	r.start = time.Now()
	if config.Trace != nil {
		config.Trace.Start(r.start)
	}
	r.sendAll(ctx, transport)

	result := r.result
	result.Interrupted = ctx.Err() != nil
	result.Reading = m.Read()
	result.observe(transport.Manager().Stats())
	server.report(&result)
	result.Ideal = ideal
	if result.Answered < result.Requests && ideal.Missing == "" {
		result.Ideal = Ideal{Missing: "not stated, as not all requests were answered"}
	}
	return result, nil
}

func newServer(config Config) (server, error) {
	if config.Real != nil {
		return config.Real, nil
	}
	return listen(config)
}

// sockets returns a transport that keeps the connections of a burst.
func sockets() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 1000
	return base
}

// newClient returns a client that follows no redirects, so that each request counts once.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// run is a load under way.
type run struct {
	config Config
	server server
	meter  *meter.Meter
	client *http.Client
	start  time.Time

	mu     sync.Mutex
	result Result
}

// sendAll returns when every request has an outcome, or was given up.
func (r *run) sendAll(ctx context.Context, transport *httpclient.Transport) {
	sending, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	done := make(chan struct{})
	var watch, group sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			_ = transport.Close() // what waits ends now; the error is always nil
			expire(cutOff, done)
		case <-done:
		}
	})
	places := make(chan struct{}, r.places())
	for n := 0; n < r.config.Requests && ctx.Err() == nil; n++ {
		select {
		case places <- struct{}{}:
			group.Go(func() {
				r.send(sending, n)
				<-places
			})
		case <-ctx.Done():
		}
	}
	group.Wait()
	close(done)
	watch.Wait()
}

// expire cuts off what is still under way when the grace is over.
func expire(cutOff func(), done <-chan struct{}) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		cutOff()
	case <-done:
	}
}

func (r *run) places() int {
	if r.config.Concurrency > 0 {
		return r.config.Concurrency
	}
	return r.config.Requests
}

// send makes one request and notes its outcome.
func (r *run) send(ctx context.Context, n int) {
	status, err := r.roundTrip(ctx, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.note(status, err, time.Since(r.start), r.config.secret()) && r.config.Done != nil {
		r.config.Done()
	}
}

func (r *run) roundTrip(ctx context.Context, n int) (status int, err error) {
	request, err := r.server.request(ctx, n)
	if err != nil {
		return 0, err
	}
	response, err := r.meter.Do(r.client, request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
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

func (r *Real) base() http.RoundTripper { return sockets() }

func (r *Real) request(ctx context.Context, _ int) (*http.Request, error) {
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

// report knows nothing: a real server does not tell.
func (r *Real) report(*Result) {}

func (r *Real) close() {}

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// patience is longer than any named scenario takes. A request without an answer by then never gets one.
	patience = 3 * time.Minute
	// grace is how long requests in flight may go on after an interruption.
	grace = 2 * time.Second
	// realTolerance is how late the client may see a response in real time before the judge assumes that it has.
	realTolerance = stallTolerated
	// authorization is the credential of all simulated requests.
	authorization = "Bot simulated"
	// userAgent has the form that Discord requires.
	userAgent = "DiscordBot (https://github.com/ratelight/ratelight, bench)"
)

// Settings configures a run of a scenario.
type Settings struct {
	Seed uint64
	// RealTime reports whether the scheduler may delay the client, for which the judge has to allow.
	RealTime bool
	// Done is called for every request that has an outcome, one call at a time. It may be nil.
	Done func()
	// Record enables the log of every request, for the page.
	Record bool
}

// run is a scenario in progress.
type run struct {
	*Scenario
	base      string // prefix of all addresses
	start     time.Time
	transport *httpclient.Transport
	client    *http.Client

	mu     sync.Mutex
	done   func() // may be nil
	result Result
}

// Run makes all requests and waits for their outcomes. When the context ends, it makes no more requests, waits briefly
// for the requests in flight, and returns with Result.Interrupted set. The error reports an invalid scenario.
func (s *Scenario) Run(ctx context.Context, settings Settings) (_ Result, err error) {
	log := report.NewLog(settings.Record)
	r := &run{Scenario: s, done: settings.Done, base: discordsim.BaseURL, result: newResult(s, log)}
	var server *discordsim.Server
	var below http.RoundTripper
	if s.config.Server != nil {
		sockets := http.DefaultTransport.(*http.Transport).Clone()
		sockets.MaxIdleConns, sockets.MaxIdleConnsPerHost = 0, 1000 // keep the connections of a burst
		defer sockets.CloseIdleConnections()
		r.base, below = s.config.Server.String(), sockets
	} else {
		config := s.begin(settings)
		log.Observe(&config)
		if server, err = discordsim.New(config); err != nil {
			return Result{}, err
		}
		defer server.Close()
		below = server.RoundTripper()
	}
	stalls := WatchStalls()
	r.start = time.Now()
	log.Start(r.start)
	meter := NewMeter(log)
	limits := []buckets.Option{buckets.WithLogger(nil), buckets.WithGlobalLimit(s.server.Global.Limit)}
	if s.Targets.InOrder {
		limits = append(limits, buckets.WithOrdered())
	}
	r.transport = httpclient.NewTransport(append(slices.Clone(s.options), httpclient.WithBuckets(limits...), httpclient.WithBase(meter.Below(below)))...)
	r.client = &http.Client{
		Transport:     r.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // each request counts once
	}
	r.sendAll(ctx, meter)
	result := &r.result
	result.Interrupted, result.Reading, result.Stalls = ctx.Err() != nil, meter.Read(), stalls()
	result.Refused = refusals(r.transport.Manager().Stats())
	_ = r.transport.Close() // the error is always nil
	var seen discordsim.Report
	if server != nil {
		seen = server.Report()
		result.Judged, result.Inversions = true, seen.Inversions
		result.Refused, result.Avoidable, result.Excused = seen.Refused, seen.Avoidable, seen.Excused
		// A response that took longer than the longest latency was delayed by the machine.
		latency := s.server.Latency
		result.Stalls.Longest = max(result.Stalls.Longest, result.SlowestRoundTrip-latency.RoundTrip-latency.Jitter)
	}
	result.Ideal, err = s.Ideal(seen)
	if result.Answered < result.Requests && result.Ideal.Missing == "" {
		result.Ideal = Ideal{Missing: "not stated, as not all requests were answered"}
	}
	return *result, err
}

// sendAll makes all requests, and returns when each has an outcome or is given up. In a named scenario it makes a
// request only when the previous one is granted or queued, so that the scheduler cannot change their order.
func (r *run) sendAll(ctx context.Context, meter *Meter) {
	sending, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	inTurn := r.Name != ""
	if inTurn {
		patient, giveUp := context.WithTimeout(ctx, patience)
		defer giveUp()
		ctx = patient
	}
	unwatch := context.AfterFunc(ctx, func() {
		_ = r.transport.Close() // ends all waits; the error is always nil
		_ = Pause(sending, grace)
		cutOff()
	})
	defer unwatch()
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, cmp.Or(r.config.Concurrency, r.Requests()))
	for n, offer := range r.offers {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if Pause(ctx, time.Until(r.start.Add(offer.due))) != nil {
			return
		}
		group.Go(func() {
			meter.Watch(sending, func(ctx context.Context) { r.send(ctx, n) })
			<-places
		})
		for inTurn && r.entered() <= n && ctx.Err() == nil {
			runtime.Gosched()
		}
	}
}

// entered returns how many requests have been granted, wait in a queue, or have ended without a grant.
func (r *run) entered() int {
	stats := r.transport.Manager().Stats()
	again := 0 // granted a second time after a refusal
	for _, n := range stats.Responses[1:] {
		again += int(n)
	}
	return int(stats.Granted+stats.TooLong+stats.QueueFull+stats.OverBudget+stats.Cancelled) + stats.Waiting - again
}

// send makes one request and records its outcome.
func (r *run) send(ctx context.Context, n int) {
	status, err := r.roundTrip(ctx, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.note(status, err, time.Since(r.start)) && r.done != nil {
		r.done()
	}
}

func (r *run) roundTrip(ctx context.Context, n int) (status int, err error) {
	request, err := r.request(ctx, n)
	if err != nil {
		return 0, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// request returns the n-th request, counted from 0.
func (r *run) request(ctx context.Context, n int) (*http.Request, error) {
	header, body := make(http.Header), io.Reader(nil)
	if r.config.Server != nil {
		header.Set("User-Agent", userAgent)
		if r.config.Token != "" {
			header.Set("Authorization", r.config.Token)
		}
	} else {
		body = strings.NewReader(fmt.Sprintf(`{"content":"message %d"}`, n+1))
		header.Set("Authorization", authorization)
		header.Set("Content-Type", "application/json")
		header.Set(discordsim.SequenceHeader, strconv.Itoa(n+1))
	}
	request, err := http.NewRequestWithContext(ctx, r.offers[n].method, r.base+r.offers[n].path, body)
	if err != nil {
		return nil, errors.New("the path cannot be requested") // the original error repeats it, and it may contain a token
	}
	request.Header = header
	return request, nil
}

package scenario

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

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/pause"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	// patience is longer than any scenario takes. Who has no answer by then never gets one.
	patience = 3 * time.Minute
	// realTolerance is how late, in real time, a goroutine may be to see an answer before it is held to have read it.
	realTolerance = 20 * time.Millisecond
)

// Settings are about the run and not about the scenario.
type Settings struct {
	Seed uint64
	// RealTime: the scheduler may delay the client, which the judge has to allow for.
	RealTime bool
	// Done is called for every request that has an outcome, by several goroutines at once. It may be nil.
	Done func()
	// Trace records the run; nil: nothing is recorded.
	Trace *trace.Trace
}

// Run runs the scenario and judges it. It stops early when the context ends; Result.Interrupted then says so. The error is
// about a scenario that makes no sense.
func (s *Scenario) Run(ctx context.Context, settings Settings) (Result, error) {
	start := time.Now()
	config := s.config(start)
	config.Seed = settings.Seed
	if settings.RealTime {
		config.Tolerance = realTolerance
	}
	m := meter.New()
	if settings.Trace != nil {
		settings.Trace.Start(start)
		settings.Trace.Simulator(&config)
		m.Observe(settings.Trace.Passage)
	}
	server, err := discordsim.New(config)
	if err != nil {
		return Result{}, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	defer server.Close()
	// What is judged is the limiter alone.
	transport := httpclient.NewTransport(httpclient.WithBase(m.Below(server.RoundTripper())),
		httpclient.WithBuckets(buckets.WithLogger(nil)), httpclient.WithBuckets(s.options...),
		httpclient.WithRetries(0), httpclient.WithAttemptTimeout(0))
	defer transport.Close()

	r := &run{
		settings: settings, start: start, meter: m, transport: transport, client: &http.Client{Transport: transport},
		result: Result{Scenario: *s, Requests: s.Requests(), Errors: make(map[string]int)},
	}
	r.offerAll(ctx, s.streams)

	result := r.result
	result.Interrupted = ctx.Err() != nil
	result.observe(server.Report(), m.Read())
	if s.ideal != nil {
		if result.Ideal, err = s.ideal(server.Report()); err != nil {
			return Result{}, fmt.Errorf("ideal of scenario %s: %w", s.Name, err)
		}
	}
	result.judge()
	return result, nil
}

// run is a scenario under way.
type run struct {
	settings  Settings
	start     time.Time
	meter     *meter.Meter
	transport *httpclient.Transport
	client    *http.Client

	mu     sync.Mutex
	result Result
}

// offer is one request to be made.
type offer struct {
	due    time.Duration
	method string
	path   string
}

// schedule lists the requests of all streams by the time at which they are made; streams take turns.
func schedule(streams []stream) (offers []offer) {
	for turn := 0; ; turn++ {
		more := false
		for _, s := range streams {
			if turn < s.count {
				offers = append(offers, offer{time.Duration(turn) * s.every, s.method, s.path})
				more = true
			}
		}
		if !more {
			break
		}
	}
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(a.due, b.due) })
	return offers
}

// offerAll makes all requests and waits until they have an outcome. Each is made when the one before it stands in its queue,
// so that their order is theirs and not the scheduler's.
func (r *run) offerAll(ctx context.Context, streams []stream) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(patience, func() { giveUp(errNoOutcome) })
	defer timer.Stop()
	var group sync.WaitGroup
	defer group.Wait()
	for i, offer := range schedule(streams) {
		if pause.For(ctx, time.Until(r.start.Add(offer.due))) != nil {
			return
		}
		group.Go(func() { r.make(ctx, offer, i+1) })
		for r.entered() <= i && ctx.Err() == nil {
			runtime.Gosched()
		}
	}
}

var errNoOutcome = errors.New("no outcome within " + patience.String())

// entered is how many requests have been granted, are in a queue, or have ended without either.
func (r *run) entered() int {
	stats := r.transport.Manager().Stats()
	again := 0 // granted a second time after a refusal
	for _, n := range stats.Responses[1:] {
		again += int(n)
	}
	return int(stats.Granted+stats.TooLong+stats.QueueFull+stats.OverBudget+stats.Cancelled) + stats.Waiting - again
}

// make makes one request and notes its outcome.
func (r *run) make(ctx context.Context, o offer, sequence int) {
	err := r.send(ctx, o, sequence)
	if r.settings.Done != nil {
		r.settings.Done()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.result.Errors[err.Error()]++
		return
	}
	r.result.Answered++
	r.result.Took = max(r.result.Took, time.Since(r.start))
}

func (r *run) send(ctx context.Context, o offer, sequence int) error {
	request, err := http.NewRequestWithContext(ctx, o.method, discordsim.BaseURL+o.path, strings.NewReader(`{"content":"hello"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(discordsim.SequenceHeader, strconv.Itoa(sequence))
	response, err := r.meter.Do(r.client, request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

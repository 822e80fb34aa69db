package load

import (
	"cmp"
	"context"
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
)

// Settings configures a run of a scenario.
type Settings struct {
	Seed uint64
	// RealTime reports whether the scheduler may delay the client, for which the judge has to allow.
	RealTime bool
	// Done is called for every request that has an outcome, one call at a time. It may be nil.
	Done func()
	// Record makes a timeline of every request, for the page.
	Record bool
}

// run is a scenario in progress.
type run struct {
	*Scenario
	start     time.Time
	transport *httpclient.Transport
	meter     Meter

	// mu guards all fields below.
	mu     sync.Mutex
	done   func() // may be nil
	result Result
}

// Run makes all requests and waits for their outcomes. When the context ends, it makes no more requests, waits briefly
// for the requests in flight, and returns with Result.Interrupted set. The error reports an invalid scenario.
func (s *Scenario) Run(ctx context.Context, settings Settings) (_ Result, err error) {
	r := &run{Scenario: s, done: settings.Done, result: newResult(s)}
	goroutines := runtime.NumGoroutine()
	config := s.begin(settings)
	if settings.Record {
		r.result.Timeline = report.NewTimeline()
		r.result.Timeline.Observe(&config)
	}
	server, err := discordsim.New(config)
	if err != nil {
		return Result{}, err
	}
	stalls := WatchStalls()
	r.start = time.Now()
	limits := []buckets.Option{buckets.WithLogger(nil), buckets.WithGlobalLimit(s.server.Global.Limit)}
	if s.Targets.InOrder {
		limits = append(limits, buckets.WithOrdered())
	}
	options := append(slices.Clone(s.options), httpclient.WithBuckets(limits...), httpclient.WithBase(r.meter.Below(server.RoundTripper())))
	r.transport = httpclient.NewTransport(options...)
	r.sendAll(ctx)
	result, manager := &r.result, r.transport.Manager()
	result.Interrupted, result.Reading, result.Stalls = ctx.Err() != nil, r.meter.Read(), stalls()
	stats, known := manager.Stats(), make(map[string]string)
	for b := range manager.Buckets() {
		known[b.Hash+" "+strings.TrimPrefix(b.Major, "-")] = b.Kind.String()
	}
	if s.config.Length > 0 {
		result.Leaks.HeapEnd = heap() // before the transport is closed, because a leak would go with it
	}
	_ = r.transport.Close() // the error is always nil
	seen := server.Report()
	_ = server.Close() // likewise
	result.Refused, result.Avoidable, result.Excused, result.Inversions = seen.Refused, seen.Avoidable, seen.Excused, seen.Inversions
	result.kinds = kindsTable(seen.Buckets, known)
	if latency := s.server.Latency; !s.config.Faults {
		// A response that took longer than the longest latency was delayed by the machine.
		result.Stalls.Longest = max(result.Stalls.Longest, result.SlowestRoundTrip-latency.RoundTrip-latency.Jitter)
	}
	if l := &result.Leaks; s.config.Length > 0 {
		l.Waiting, l.InFlight, l.Buckets, l.Met = stats.Waiting, stats.InFlight, stats.Buckets, metBuckets(seen.Buckets)
		l.Goroutines = goroutinesAbove(goroutines)
	}
	result.Ideal, err = s.Ideal(seen)
	if result.Answered < result.Requests && result.Ideal.Missing == "" {
		result.Ideal = Ideal{Missing: "not stated, as not all requests were answered"}
	}
	return *result, err
}

// sendAll makes all requests, and returns when each has an outcome or is given up. In a named scenario it makes a
// request only when the previous one is granted or queued, so that the scheduler cannot change their order.
func (r *run) sendAll(ctx context.Context) {
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
		if r.config.Length > 0 && n == len(r.offers)/2 {
			r.result.Leaks.HeapHalfway = heap()
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if Pause(ctx, time.Until(r.start.Add(offer.due))) != nil {
			return
		}
		group.Go(func() {
			r.meter.Watch(sending, func(ctx context.Context) { r.send(ctx, n) })
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
	if after := r.config.cancelsAfter(n); after > 0 {
		limited, cancel := context.WithTimeout(ctx, after)
		defer cancel()
		ctx = limited
	}
	status, err := r.roundTrip(ctx, n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.note(status, err, time.Since(r.start)) && r.done != nil {
		r.done()
	}
}

func (r *run) roundTrip(ctx context.Context, n int) (status int, err error) {
	body := strings.NewReader(fmt.Sprintf(`{"content":"message %d"}`, n+1))
	request, err := http.NewRequestWithContext(ctx, r.offers[n].method, discordsim.BaseURL+r.offers[n].path, body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(discordsim.SequenceHeader, strconv.Itoa(n+1))
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

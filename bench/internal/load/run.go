package load

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// grace is how long what is under way may go on after an interruption.
const grace = 2 * time.Second

// run is a load or a scenario under way.
type run struct {
	start     time.Time
	meter     *Meter
	transport *httpclient.Transport
	client    *http.Client
	stalls    func() Stalls
	log       *report.Log
	done      func() // may be nil
	secret    string // that no error may show
	mayFail   bool   // an answer of status 400 or more is an answer

	mu     sync.Mutex
	result Result
}

// newRun begins a run that makes so many requests, over a transport that limits what it sends to another one.
func newRun(requests int, log *report.Log, base http.RoundTripper, options ...httpclient.Option) *run {
	r := &run{start: time.Now(), meter: NewMeter(log), log: log, stalls: WatchStalls(), result: newResult(requests)}
	log.Start(r.start)
	r.transport = httpclient.NewTransport(append(options, httpclient.WithBase(r.meter.Below(base)))...)
	r.client = &http.Client{
		Transport:     r.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // each request counts once
	}
	return r
}

// offer is one request to be made.
type offer struct {
	due     time.Duration // since the start
	request func(context.Context) (*http.Request, error)
}

// sendAll makes all requests, so many at a time, and returns when every one has an outcome. When the context ends it makes no more, waits a
// moment for what is under way, and gives the rest up. In turn, each is made when the one before it stands in its queue, so that their order
// is theirs and not the scheduler's.
func (r *run) sendAll(ctx context.Context, atATime int, inTurn bool, offers func(n int) offer) {
	sending, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	unwatch := context.AfterFunc(ctx, func() {
		_ = r.transport.Close() // what waits ends now; the error is always nil
		_ = Pause(sending, grace)
		cutOff()
	})
	defer unwatch()
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, atATime)
	for n := range r.result.Requests {
		offer := offers(n)
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
		}
		if Pause(ctx, time.Until(r.start.Add(offer.due))) != nil {
			return
		}
		group.Go(func() {
			r.send(sending, offer)
			<-places
		})
		for inTurn && r.entered() <= n && ctx.Err() == nil {
			runtime.Gosched()
		}
	}
}

// entered is how many requests have been granted, are in a queue, or have ended without either.
func (r *run) entered() int {
	stats := r.transport.Manager().Stats()
	again := 0 // granted a second time after a refusal
	for _, n := range stats.Responses[1:] {
		again += int(n)
	}
	return int(stats.Granted+stats.TooLong+stats.QueueFull+stats.OverBudget+stats.Cancelled) + stats.Waiting - again
}

// send makes one request and notes its outcome.
func (r *run) send(ctx context.Context, offer offer) {
	status, err := r.roundTrip(ctx, offer)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.note(status, err, time.Since(r.start), r) && r.done != nil {
		r.done()
	}
}

func (r *run) roundTrip(ctx context.Context, offer offer) (status int, err error) {
	request, err := offer.request(ctx)
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

// end closes the client and returns what was measured on its side, and on that of the simulated Discord, if that is where it was. A round trip
// that took longer than the slowest one has stalled; 0: sockets, whose own time is not known.
func (r *run) end(ctx context.Context, server *discordsim.Server, slowest time.Duration) Result {
	stats := r.transport.Manager().Stats()
	r.transport.CloseIdleConnections()
	_ = r.transport.Close() // the error is always nil
	result := r.result
	result.Interrupted, result.Stalls, result.Reading, result.Log = ctx.Err() != nil, r.stalls(), r.meter.Read(), r.log
	result.observe(stats)
	if server != nil {
		report := server.Report()
		result.Judged, result.Inversions = true, report.Inversions
		result.Refused, result.Avoidable, result.Excused = report.Refused, report.Avoidable, report.Excused
	}
	if slowest > 0 {
		result.Stalls.Longest = max(result.Stalls.Longest, result.SlowestRoundTrip-slowest)
	}
	return result
}

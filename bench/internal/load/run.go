package load

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// run is a load or a scenario under way.
type run struct {
	start     time.Time
	meter     *Meter
	transport *httpclient.Transport
	client    *http.Client
	stalls    func() Stalls
	trace     *Trace
	done      func() // may be nil
	secret    string // that no error may show
	mayFail   bool   // an answer of status 400 or more is an answer

	mu     sync.Mutex
	result Result
}

// newRun begins a run that makes so many requests, over a transport that limits what it sends to another one.
func newRun(requests int, trace *Trace, base http.RoundTripper, options ...httpclient.Option) *run {
	r := &run{start: time.Now(), meter: NewMeter(trace), trace: trace, stalls: WatchStalls(), result: newResult(requests)}
	trace.Start(r.start)
	r.transport = httpclient.NewTransport(append(options, httpclient.WithBase(r.meter.Below(base)))...)
	r.client = &http.Client{
		Transport:     r.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // each request counts once
	}
	return r
}

// send makes one request and notes its outcome.
func (r *run) send(ctx context.Context, request func(context.Context) (*http.Request, error)) {
	status, err := r.roundTrip(ctx, request)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.result.note(status, err, time.Since(r.start), r) && r.done != nil {
		r.done()
	}
}

func (r *run) roundTrip(ctx context.Context, request func(context.Context) (*http.Request, error)) (status int, err error) {
	made, err := request(ctx)
	if err != nil {
		return 0, err
	}
	response, err := r.meter.Do(r.client, made)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// end closes the client and returns what was measured on its side, and on that of the simulated Discord, if that is where it was.
func (r *run) end(ctx context.Context, server *discordsim.Server, latency discordsim.Latency) Result {
	stats := r.transport.Manager().Stats()
	r.transport.CloseIdleConnections()
	_ = r.transport.Close() // the error is always nil
	result := r.result
	result.Interrupted, result.Stalls, result.Reading, result.Log = ctx.Err() != nil, r.stalls(), r.meter.Read(), r.trace.Log()
	result.observe(stats)
	if server != nil {
		report := server.Report()
		result.Judged, result.Inversions = true, report.Inversions
		result.Refused, result.Avoidable, result.Excused = report.Refused, report.Avoidable, report.Excused
		result.Stalls.Answered(result.SlowestRoundTrip, latency.RoundTrip+latency.Jitter)
	}
	return result
}

package load

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/ratelimits"
)

// Meter measures requests on their way through a transport, from both sides: Do is called in place of http.Client.Do and notes when a
// request was handed over; the round tripper from Below goes below the transport under test and notes when a request comes out of it.
// A Meter is safe for concurrent use. Use NewMeter.
type Meter struct {
	log *report.Log // nil: nothing is recorded

	mu       sync.Mutex
	queued   []time.Duration
	inFlight int
	reading  Reading
}

// NewMeter returns a meter that has seen nothing. Each request is recorded in the log, unless that is nil.
func NewMeter(log *report.Log) *Meter { return &Meter{log: log} }

// Queued is how long requests were held back. All zero if none was sent.
type Queued struct {
	Median, P90, P99, Max time.Duration
}

// Quantiles sorts the times.
func Quantiles(times []time.Duration) Queued {
	if len(times) == 0 {
		return Queued{}
	}
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[(percent*len(times)+99)/100-1] }
	return Queued{at(50), at(90), at(99), at(100)}
}

// Reading is what a meter has measured so far.
type Reading struct {
	// Queued counts, for each request that was sent and not given up, the time from handing it to the client until it was sent, and, if
	// it was sent again, from each refusal until the next sending. Round trips are no part of it.
	Queued Queued
	// LargestInFlight is the largest number of requests that were under way at once.
	LargestInFlight int
	// SlowestRoundTrip is the longest time from a sending until its response.
	SlowestRoundTrip time.Duration
}

// Read returns the measurements so far.
func (m *Meter) Read() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	reading := m.reading
	reading.Queued = Quantiles(m.queued)
	return reading
}

// watch follows one request. Its requests come and go one after the other, so it needs no lock.
type watch struct {
	waiting time.Time // since when it has been held back
	queued  time.Duration
	sends   int
	log     []report.Send // kept if there is a log
}

type watchKey struct{}

// Do is client.Do for a client whose transport is, or stands on, a round tripper from Below.
func (m *Meter) Do(client *http.Client, request *http.Request) (response *http.Response, err error) {
	m.Watch(request.Context(), func(ctx context.Context) { response, err = client.Do(request.WithContext(ctx)) })
	return response, err
}

// Watch is Do for what is no http.Client: f makes one request, under the context that it is given, and returns when the
// request is over.
func (m *Meter) Watch(ctx context.Context, f func(context.Context)) {
	start := time.Now()
	w := &watch{waiting: start}
	f(context.WithValue(ctx, watchKey{}, w))
	if w.sends > 0 && ctx.Err() == nil {
		m.mu.Lock()
		m.queued = append(m.queued, w.queued)
		m.mu.Unlock()
	}
	if m.log != nil {
		m.log.Add(report.Passage{HandedOver: m.log.Since(start), Done: m.log.Since(time.Now()), Sends: w.log})
	}
}

// Below wraps the round tripper that really sends.
func (m *Meter) Below(base http.RoundTripper) http.RoundTripper { return &below{m, base} }

type below struct {
	meter *Meter
	base  http.RoundTripper
}

func (b *below) RoundTrip(request *http.Request) (*http.Response, error) {
	w, _ := request.Context().Value(watchKey{}).(*watch)
	sent := time.Now()
	if w != nil {
		w.queued += sent.Sub(w.waiting)
		w.sends++
	}
	b.meter.enter()
	response, err := b.base.RoundTrip(request)
	back := time.Now()
	b.meter.leave(back.Sub(sent), err)
	if w != nil {
		w.waiting = back
		if log := b.meter.log; log != nil {
			w.log = append(w.log, newSend(log.Since(sent), log.Since(back), response))
		}
	}
	return response, err
}

func newSend(at, back time.Duration, response *http.Response) report.Send {
	send := report.Send{At: at, Back: back}
	if response != nil {
		send.Status = response.StatusCode
		send.Class = ratelimits.ParseResponse(response.StatusCode, response.Header, nil).Class
	}
	return send
}

// CloseIdleConnections passes the wish on.
func (b *below) CloseIdleConnections() {
	if c, ok := b.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (m *Meter) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight++
	m.reading.LargestInFlight = max(m.reading.LargestInFlight, m.inFlight)
}

func (m *Meter) leave(took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight--
	if err == nil {
		m.reading.SlowestRoundTrip = max(m.reading.SlowestRoundTrip, took)
	}
}

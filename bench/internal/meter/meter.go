// Package meter measures requests on their way through a transport: how long they are held back, how many are under way
// at once, how many are sent more than once.
//
// It watches from both sides. [Meter.Do] is called in place of http.Client.Do and notes when a request was handed over;
// the round tripper from [Meter.Below] goes below the transport under test and notes when a request comes out of it.
package meter

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// longestQueued is where the histogram ends, in microseconds; what is longer counts as that long.
	longestQueued = int64(24 * time.Hour / time.Microsecond)
	// digits is the precision of the histogram: a time is off by at most a thousandth.
	digits = 3
)

// Meter is safe for concurrent use. Use New.
type Meter struct {
	mu       sync.Mutex
	queued   *hdrhistogram.Histogram // microseconds
	sent     int
	inFlight int
	largest  int
	observe  func(Passage) // nil: nobody wants to know
}

// New returns a meter that has seen nothing.
func New() *Meter {
	return &Meter{queued: hdrhistogram.New(1, longestQueued, digits)}
}

// Passage is one request's way through the client.
type Passage struct {
	HandedOver, Done time.Time
	Sends            []Send // none if the client refused or gave up the request before it was sent
}

// Send is one time that a request was sent.
type Send struct {
	At, Back time.Time
	Status   int              // 0: no response
	Class    ratelimits.Class // as far as the headers tell
}

// Observe has a function called with every request that went through Do or Watch, when these return. It is called by several
// goroutines at once. Observe must be called before the first request.
func (m *Meter) Observe(observe func(Passage)) { m.observe = observe }

// Queued is how long requests were held back. All zero if none was sent.
type Queued struct {
	Median, P90, P99, Max time.Duration
}

// Reading is what a meter has measured so far.
type Reading struct {
	// Queued counts, for each request that was sent, the time from handing it to the client until it was sent, and, if it
	// was sent again, from each refusal until the next sending. Round trips are no part of it.
	Queued Queued
	// Sent counts sendings; a request that is repeated counts each time.
	Sent int
	// InFlight is the number of requests under way now, and LargestInFlight the largest there has been.
	InFlight, LargestInFlight int
}

// Read returns the measurements so far.
func (m *Meter) Read() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Reading{
		Queued: Queued{
			Median: m.quantile(50), P90: m.quantile(90), P99: m.quantile(99),
			Max: time.Duration(m.queued.Max()) * time.Microsecond,
		},
		Sent:            m.sent,
		InFlight:        m.inFlight,
		LargestInFlight: m.largest,
	}
}

func (m *Meter) quantile(percent float64) time.Duration {
	return time.Duration(m.queued.ValueAtQuantile(percent)) * time.Microsecond
}

// watch follows one request. Its requests come and go one after the other, so it needs no lock.
type watch struct {
	waiting time.Time // since when it has been held back
	queued  time.Duration
	sends   int
	log     []Send // kept if somebody observes
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
	if w.sends > 0 {
		m.record(w.queued)
	}
	if m.observe != nil {
		m.observe(Passage{HandedOver: start, Done: time.Now(), Sends: w.log})
	}
}

func (m *Meter) record(queued time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.queued.RecordValue(min(queued.Microseconds(), longestQueued)) // the only error is a value beyond the end
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
	b.meter.leave()
	if w != nil {
		w.waiting = time.Now()
		if b.meter.observe != nil {
			w.log = append(w.log, newSend(sent, w.waiting, response))
		}
	}
	return response, err
}

func newSend(at, back time.Time, response *http.Response) Send {
	send := Send{At: at, Back: back}
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
	m.sent++
	m.inFlight++
	m.largest = max(m.largest, m.inFlight)
}

func (m *Meter) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight--
}

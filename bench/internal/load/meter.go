package load

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Meter measures requests on both sides of a transport: Watch when the client hands them over, the round tripper from
// Below when they are sent and answered. It is safe for concurrent use. The zero Meter is ready for use.
type Meter struct {
	// mu guards all fields below.
	mu       sync.Mutex
	queued   []time.Duration // of each request that was sent and not given up
	inFlight int
	reading  Reading // without Queued
}

// Queued has quantiles of how long requests were held back. All are zero if no request was sent.
type Queued struct {
	Median, P90, P99, Max time.Duration
}

// Quantiles returns the quantiles of times, and sorts times in place.
func Quantiles(times []time.Duration) Queued {
	if len(times) == 0 {
		return Queued{}
	}
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[(percent*len(times)+99)/100-1] }
	return Queued{at(50), at(90), at(99), at(100)}
}

// Reading has the measurements of a meter so far.
type Reading struct {
	// Queued is the time from the handover until the first attempt, and from each response until the next attempt.
	// Round trips are not included, nor are requests that were given up or never sent.
	Queued Queued
	// LargestInFlight is the largest number of requests in flight at once.
	LargestInFlight int
	// SlowestRoundTrip is the longest time from sending a request until its response.
	SlowestRoundTrip time.Duration
}

// Read returns the measurements of the requests that have ended.
func (m *Meter) Read() Reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	reading := m.reading
	reading.Queued = Quantiles(m.queued)
	return reading
}

// passage is one request. Its attempts follow one another, so it needs no lock.
type passage struct {
	since  time.Time // when it was handed over, or the latest attempt ended
	queued time.Duration
	sent   bool
}

type passageKey struct{}

// Watch calls f, which must make one request and return when it has ended. The request must have the context that f
// gets, and go through a round tripper from Below.
func (m *Meter) Watch(ctx context.Context, f func(context.Context)) {
	p := &passage{since: time.Now()}
	f(context.WithValue(ctx, passageKey{}, p))
	if !p.sent || ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queued = append(m.queued, p.queued)
}

// Below wraps the round tripper that sends to the server.
func (m *Meter) Below(base http.RoundTripper) http.RoundTripper { return &below{m, base} }

type below struct {
	meter *Meter
	base  http.RoundTripper
}

func (b *below) RoundTrip(request *http.Request) (*http.Response, error) {
	p, _ := request.Context().Value(passageKey{}).(*passage)
	if p == nil {
		p = &passage{since: time.Now()}
	}
	sent := time.Now()
	p.queued, p.sent = p.queued+sent.Sub(p.since), true
	m := b.meter
	m.mu.Lock()
	m.inFlight++
	m.reading.LargestInFlight = max(m.reading.LargestInFlight, m.inFlight)
	m.mu.Unlock()
	response, err := b.base.RoundTrip(request)
	p.since = time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight--
	if err == nil {
		m.reading.SlowestRoundTrip = max(m.reading.SlowestRoundTrip, p.since.Sub(sent))
	}
	return response, err
}

package load

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/ratelimits"
)

// Meter records the times of each request on both sides of a transport: Watch when it was handed over, the round
// tripper from Below when it was sent and answered. A Meter is safe for concurrent use. Use NewMeter.
type Meter struct {
	log   *report.Log // nil: none
	start time.Time

	mu       sync.Mutex
	passages []report.Passage
}

// NewMeter returns an empty meter. It records each request in the log, too; the log may be nil.
func NewMeter(log *report.Log) *Meter { return &Meter{log: log, start: time.Now()} }

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
func (m *Meter) Read() (reading Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	type change struct {
		at time.Duration
		by int
	}
	var queued []time.Duration
	var inFlight []change
	for _, passage := range m.passages {
		if len(passage.Sends) > 0 && !passage.GivenUp {
			queued = append(queued, passage.Queued())
		}
		for _, send := range passage.Sends {
			inFlight = append(inFlight, change{send.At, 1}, change{send.Back, -1})
			if send.Status != 0 {
				reading.SlowestRoundTrip = max(reading.SlowestRoundTrip, send.Back-send.At)
			}
		}
	}
	reading.Queued = Quantiles(queued)
	slices.SortFunc(inFlight, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	n := 0
	for _, change := range inFlight {
		n += change.by
		reading.LargestInFlight = max(reading.LargestInFlight, n)
	}
	return reading
}

type sendsKey struct{}

// Watch calls f, which must make one request and return when it has ended. The request must have the context that f
// gets, and go through a round tripper from Below.
func (m *Meter) Watch(ctx context.Context, f func(context.Context)) {
	passage := report.Passage{HandedOver: time.Since(m.start)}
	f(context.WithValue(ctx, sendsKey{}, &passage.Sends)) // attempts follow one another, so it needs no lock
	passage.Done, passage.GivenUp = time.Since(m.start), ctx.Err() != nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passages = append(m.passages, passage)
	if m.log != nil {
		m.log.Add(passage)
	}
}

// Below wraps the round tripper that sends to the server.
func (m *Meter) Below(base http.RoundTripper) http.RoundTripper { return &below{m, base} }

type below struct {
	meter *Meter
	base  http.RoundTripper
}

func (b *below) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := report.Send{At: time.Since(b.meter.start)}
	response, err := b.base.RoundTrip(request)
	sent.Back = time.Since(b.meter.start)
	if err == nil {
		sent.Status, sent.Class = response.StatusCode, ratelimits.ParseResponse(response.StatusCode, response.Header, nil).Class
	}
	if sends, ok := request.Context().Value(sendsKey{}).(*[]report.Send); ok {
		*sends = append(*sends, sent)
	}
	return response, err
}

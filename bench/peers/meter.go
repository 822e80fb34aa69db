package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
)

// meter measures requests on both sides of a client. The method watch records when a request is handed to the client.
// The round tripper returned by the method below records when each attempt is sent and when the attempt ends. A meter
// is safe for concurrent use. The zero meter is ready for use.
type meter struct {
	// mu guards queued.
	mu     sync.Mutex
	queued []time.Duration // of each request that was sent and not given up
}

// read returns how long the requests that have ended were held back: from the handover until the first attempt, and
// from each response until the next attempt. Round trips are not included. Requests that were given up or never sent do
// not count.
func (m *meter) read() load.Queued {
	m.mu.Lock()
	defer m.mu.Unlock()
	return load.Quantiles(m.queued)
}

// passage is one request. Its attempts are made one after the other, so it needs no lock.
type passage struct {
	since  time.Time // when it was handed over, or the latest attempt ended
	queued time.Duration
	sent   bool
}

type passageKey struct{}

// watch calls f, which must make one request and return when it has ended. The request must have the context that f
// gets, and go through a round tripper from below.
func (m *meter) watch(ctx context.Context, f func(context.Context)) {
	p := &passage{since: time.Now()}
	f(context.WithValue(ctx, passageKey{}, p))
	if !p.sent || ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queued = append(m.queued, p.queued)
}

// below wraps the round tripper that sends to the server.
func (m *meter) below(base http.RoundTripper) http.RoundTripper { return &metered{m, base} }

type metered struct {
	meter *meter
	base  http.RoundTripper
}

func (b *metered) RoundTrip(request *http.Request) (*http.Response, error) {
	p, _ := request.Context().Value(passageKey{}).(*passage)
	if p == nil {
		p = &passage{since: time.Now()}
	}
	sent := time.Now()
	p.queued, p.sent = p.queued+sent.Sub(p.since), true
	response, err := b.base.RoundTrip(request)
	p.since = time.Now()
	return response, err
}

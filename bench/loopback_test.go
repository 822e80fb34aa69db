package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ratelight/ratelight/httpclient"
)

// What is left of http.Transport's speed when the requests go over real sockets.

// newLoopback returns the address of a server on this machine, whose buckets never run out.
func newLoopback(b *testing.B) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		maps.Copy(w.Header(), answer)
		_, _ = io.WriteString(w, "{}")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// newPair returns http.Transport as it is, and ours above another one.
func newPair(b *testing.B, senders int) (bare, ours http.RoundTripper) {
	var below [2]*http.Transport
	for i := range below {
		below[i] = &http.Transport{MaxIdleConnsPerHost: senders}
		b.Cleanup(below[i].CloseIdleConnections)
	}
	transport := httpclient.NewTransport(httpclient.WithBase(below[1]), httpclient.WithBuckets(patient...),
		httpclient.WithHosts(func(string) (string, bool) { return "", true }))
	b.Cleanup(func() { _ = transport.Close() }) // never fails
	return below[0], transport
}

func BenchmarkLoopback(b *testing.B) {
	for _, s := range sendings {
		for _, group := range []struct {
			name    string
			senders int
		}{{"one", 1}, {"many", 32}} {
			b.Run(s.name+"/"+group.name, func(b *testing.B) {
				requests := s.requests(b, newLoopback(b), group.senders)
				bare, ours := newPair(b, group.senders)
				b.Run("bare", func(b *testing.B) { s.alone(b, bare, requests) })
				b.Run("ratelight", func(b *testing.B) { s.alone(b, ours, requests) })
				b.Run("ratio", func(b *testing.B) { s.compare(b, bare, ours, requests) })
			})
		}
	}
}

// alone measures one transport: requests per second, and the time within which 99 of 100 are answered.
func (s sending) alone(b *testing.B, transport http.RoundTripper, requests []*http.Request) {
	s.burst(b, transport, requests, len(requests)) // connects, and learns the buckets
	b.ReportAllocs()
	b.ResetTimer()
	took := s.burst(b, transport, requests, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(p99(took).Microseconds()), "p99-µs")
}

// compare measures two transports in short turns, so that what else happens on the machine meets both: how many
// requests per second ours reaches of the bare one's, and how much longer its 99 of 100 take.
func (s sending) compare(b *testing.B, bare, ours http.RoundTripper, requests []*http.Request) {
	const turn = 512 // requests, some milliseconds
	pair := [2]http.RoundTripper{bare, ours}
	var total [2]time.Duration
	var took [2][]time.Duration
	for _, transport := range pair {
		s.burst(b, transport, requests, len(requests))
	}
	for i := 0; b.Loop(); i++ {
		for j := range pair {
			which := (i + j) % 2 // neither is always the first
			start := time.Now()
			took[which] = append(took[which], s.burst(b, pair[which], requests, turn)...)
			total[which] += time.Since(start)
		}
	}
	b.ReportMetric(total[0].Seconds()/total[1].Seconds(), "of-bare")
	b.ReportMetric(p99(took[1]).Seconds()/p99(took[0]).Seconds(), "p99-of-bare")
}

// burst sends n requests with a sender for each of those given, and returns how long each of them took.
func (s sending) burst(b *testing.B, transport http.RoundTripper, requests []*http.Request, n int) []time.Duration {
	took := make([]time.Duration, n)
	var next atomic.Int64
	var senders sync.WaitGroup
	for _, request := range requests {
		senders.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				start := time.Now()
				s.roundTrip(b, transport, request)
				took[i] = time.Since(start)
			}
		})
	}
	senders.Wait()
	return took
}

// p99 returns the time within which 99 of 100 ended.
func p99(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)*99/100]
}

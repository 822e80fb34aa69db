package main

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/metrics"
)

// BenchmarkMetrics compares what a request costs with and without metrics, in slices that take turns: the metric
// "x/without". A manager alone calls no hook for a request that does not wait.
func BenchmarkMetrics(b *testing.B) {
	for _, s := range sendings {
		if s.name != "get" && s.name != "post" {
			continue
		}
		send := func() func(i int) {
			transport := httpclient.NewTransport(httpclient.WithBase(instant{}), httpclient.WithBuckets(patient...))
			b.Cleanup(func() { _ = transport.Close() })
			return s.sender(b, transport)
		}
		b.Run(s.name, func(b *testing.B) {
			measured := httpclient.NewTransport(httpclient.WithBase(instant{}), httpclient.WithBuckets(patient...))
			defer measured.Close()
			prometheus.NewRegistry().MustRegister(metrics.New(measured.Manager(), measured))
			compare(b, 1, func(int) {}, []contender{{"with", s.sender(b, measured)}, {"without", send()}})
		})
	}
}

// sender returns what sends a request to a bucket that is known.
func (s sending) sender(b *testing.B, transport http.RoundTripper) func(i int) {
	request := s.requests(b, "https://discord.com", 1)[0]
	s.roundTrip(b, transport, request)
	return func(int) { s.roundTrip(b, transport, request) }
}

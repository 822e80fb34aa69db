package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// What our part of a request costs, in a bucket that is known and has room. The global limit is off: no benchmark sends as
// slowly as that.

const (
	authorization = "Bot benchmark"
	manyBuckets   = 100_000
)

// answer is the header of every answer: a bucket that never runs out.
var answer = http.Header{
	"Date":                    {"Tue, 01 Jan 2030 00:00:00 GMT"},
	"Content-Type":            {"application/json"},
	"X-Ratelimit-Bucket":      {"80c17d2f203122d936070c88c8d10f33"},
	"X-Ratelimit-Limit":       {"1000000000"},
	"X-Ratelimit-Remaining":   {"999999999"},
	"X-Ratelimit-Reset":       {"1893456001.000"},
	"X-Ratelimit-Reset-After": {"1.000"},
}

var patient = []buckets.Option{
	buckets.WithGlobalLimit(0), buckets.WithPollPeriod(time.Hour), buckets.WithExpireAfter(time.Hour),
}

// newManager returns a manager that has seen an answer for every route.
func newManager(b *testing.B, known []routes.CompiledRoute) *buckets.RESTBucketManager {
	b.Helper()
	manager := buckets.NewRESTBucketManager(patient...)
	require.NoError(b, manager.Start())
	b.Cleanup(func() { require.NoError(b, manager.Close()) })
	response := ratelimits.ParseResponse(http.StatusOK, answer, nil)
	for _, route := range known {
		cycle(b, manager, route, func() ratelimits.Response { return response })
	}
	return manager
}

// cycle is what a request costs, apart from the request.
func cycle(b *testing.B, manager *buckets.RESTBucketManager, route routes.CompiledRoute, response func() ratelimits.Response) {
	lease, err := manager.Acquire(context.Background(), route, authorization)
	if err != nil {
		b.Fatal(err)
	}
	lease.Update(response())
	lease.Release()
}

// channels returns the routes of messages to so many channels.
func channels(b *testing.B, n int) (list []routes.CompiledRoute) {
	b.Helper()
	for i := range n {
		route, err := routes.CreateMessage.Compile(fmt.Sprint(900_000_000_000_000_000 + i))
		require.NoError(b, err)
		list = append(list, route)
	}
	return list
}

var sizes = []struct {
	name    string
	buckets int
}{{"one", 1}, {"many", manyBuckets}}

// BenchmarkAcquireUpdateRelease compares what a request costs with the references, in slices that take turns: the metrics
// "x/rate" and "x/floor" say how many times as long it takes.
func BenchmarkAcquireUpdateRelease(b *testing.B) {
	parsed := ratelimits.ParseResponse(http.StatusOK, answer, nil)
	ways := []struct {
		name     string
		response func() ratelimits.Response
	}{
		{"parsed", func() ratelimits.Response { return parsed }},
		{"parsing", func() ratelimits.Response { return ratelimits.ParseResponse(http.StatusOK, answer, nil) }},
	}
	for _, size := range sizes {
		known := channels(b, size.buckets)
		manager := newManager(b, known)
		for _, way := range ways {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", way.name, size.name, callers), func(b *testing.B) {
					compare(b, callers, []contender{
						{"ratelight", func(i int) { cycle(b, manager, known[i%len(known)], way.response) }},
						{"rate", rateLimiters(known)},
						{"floor", floor(known)},
					})
				})
			}
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ name, method, path string }{
		{"message", "POST", "/api/v10/channels/900000000000000000/messages"},
		{"reaction", "PUT", "/api/v10/channels/900000000000000000/messages/900000000000000001/reactions/%F0%9F%91%8D/@me"},
		{"unknown", "GET", "/api/v10/guilds/900000000000000000/something-new/900000000000000001"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := routes.Match(c.method, c.path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// instant answers at once.
type instant struct{}

func (instant) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: answer, Body: http.NoBody, Request: request}, nil
}

func BenchmarkTransport(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchmarkTransport(b, instant{}, 1) })
	for _, size := range sizes {
		b.Run("ratelight/"+size.name, func(b *testing.B) {
			transport := httpclient.NewTransport(httpclient.WithBase(instant{}), httpclient.WithBuckets(patient...))
			defer transport.Close()
			benchmarkTransport(b, transport, size.buckets)
		})
	}
}

func benchmarkTransport(b *testing.B, transport http.RoundTripper, channels int) {
	requests := make([]*http.Request, channels)
	for i := range requests {
		url := fmt.Sprintf("https://discord.com/api/v10/channels/%d/messages", 900_000_000_000_000_000+i)
		request, err := http.NewRequest(http.MethodPost, url, http.NoBody)
		require.NoError(b, err)
		request.Header.Set("Authorization", authorization)
		requests[i] = request
		roundTrip(b, transport, request)
	}
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			roundTrip(b, transport, requests[i%len(requests)])
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var workers atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			const stride = 7919
			for i := int(workers.Add(1)) * stride; pb.Next(); i++ {
				roundTrip(b, transport, requests[i%len(requests)])
			}
		})
	})
}

func roundTrip(b *testing.B, transport http.RoundTripper, request *http.Request) {
	response, err := transport.RoundTrip(request)
	if err != nil {
		b.Fatal(err)
	}
	_ = response.Body.Close() // http.NoBody never fails
}

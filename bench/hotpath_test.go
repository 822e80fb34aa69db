package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The benchmarks measure our part of a request, in a bucket that is known and has room. The global limit is off,
// because every benchmark sends faster than it allows.

const (
	authorization = "Bot benchmark"
	manyBuckets   = 100_000
	hugeLimit     = 1_000_000_000
)

// server returns the responses of a bucket that never gets full. Its responses change only in advance, so that a
// benchmark measures the limiter and not the server.
type server struct {
	closes time.Time
	header http.Header
	count  int // requests in the window
}

func newServer() *server {
	s := &server{closes: time.Now().Add(24 * time.Hour), header: http.Header{
		"Date":               {"Tue, 01 Jan 2030 00:00:00 GMT"},
		"Content-Type":       {"application/json"},
		"X-Ratelimit-Bucket": {"80c17d2f203122d936070c88c8d10f33"},
		"X-Ratelimit-Limit":  {strconv.Itoa(hugeLimit)},
	}}
	s.header.Set("X-Ratelimit-Reset", fmt.Sprintf("%.3f", float64(s.closes.UnixMilli())/1000))
	s.advance(1)
	return s
}

// advance counts n more requests.
func (s *server) advance(n int) {
	s.count += n
	s.header.Set("X-Ratelimit-Remaining", strconv.Itoa(hugeLimit-s.count))
	s.header.Set("X-Ratelimit-Reset-After", fmt.Sprintf("%.3f", time.Until(s.closes).Seconds()))
}

func (s *server) response() ratelimits.Response {
	return ratelimits.ParseResponse(http.StatusOK, s.header, nil)
}

// RoundTrip answers at once.
func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: s.header, Body: io.NopCloser(strings.NewReader("{}")), Request: request}, nil
}

var patient = []buckets.Option{
	buckets.WithGlobalLimit(0), buckets.WithPollPeriod(time.Hour), buckets.WithExpireAfter(time.Hour),
}

// cycle is our part of one request.
func cycle(b *testing.B, manager *buckets.RESTBucketManager, route routes.CompiledRoute, response ratelimits.Response) {
	lease, err := manager.Acquire(context.Background(), route, authorization)
	if err != nil {
		b.Fatal(err)
	}
	lease.Update(response)
	lease.Release()
}

func messageTo(b *testing.B, channel int) routes.CompiledRoute {
	route, err := routes.CreateMessage.Compile(strconv.Itoa(900_000_000_000_000_000 + channel))
	if err != nil {
		b.Fatal(err)
	}
	return route
}

// newManager returns a manager that has seen responses for every route, until the kind of the buckets was proven.
func newManager(b *testing.B, s *server, known []routes.CompiledRoute) *buckets.RESTBucketManager {
	manager := buckets.NewRESTBucketManager(slices.Clone(patient)...)
	require.NoError(b, manager.Start())
	for range 3 {
		time.Sleep(5 * time.Millisecond)
		s.advance(len(known))
		for _, route := range known {
			cycle(b, manager, route, s.response())
		}
	}
	return manager
}

// isFixed reports whether all buckets are known to be fixed windows. A stall of the machine of more than a millisecond
// makes older responses contradict that.
func isFixed(manager *buckets.RESTBucketManager) bool {
	for b := range manager.Buckets() {
		if b.Kind != ratelimits.KindFixed {
			return false
		}
	}
	return true
}

// BenchmarkAcquireUpdateRelease compares our part of a request with two references: "x/rate" says how many times as
// long it takes as golang.org/x/time/rate, "x/floor" as reading the clock and two look-ups under a lock.
func BenchmarkAcquireUpdateRelease(b *testing.B) {
	for name, n := range map[string]int{"one": 1, "many": manyBuckets} {
		var known []routes.CompiledRoute
		for channel := range n {
			known = append(known, messageTo(b, channel))
		}
		s := newServer()
		manager := newManager(b, s, known)
		ours := func(i int) { cycle(b, manager, known[i%n], s.response()) }
		before := func(count int) {
			if s.advance(count); n == 1 && !isFixed(manager) {
				require.NoError(b, manager.Close())
				manager = newManager(b, s, known)
			}
		}
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", name, callers), func(b *testing.B) {
				compare(b, callers, before, []contender{{"ratelight", ours}, {"rate", rateLimiters(known)}, {"floor", floor(known)}})
			})
		}
		require.NoError(b, manager.Close())
	}
}

// BenchmarkTransport measures what the transport adds to a round tripper that answers at once.
func BenchmarkTransport(b *testing.B) {
	transport := httpclient.NewTransport(httpclient.WithBase(newServer()), httpclient.WithBuckets(patient...))
	defer transport.Close()
	b.ReportAllocs()
	for b.Loop() {
		request, err := http.NewRequest(http.MethodPost, "https://discord.com/api/v10/channels/1/messages", strings.NewReader("{}"))
		require.NoError(b, err)
		request.Header.Set("Authorization", authorization)
		response, err := transport.RoundTrip(request)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		require.NoError(b, response.Body.Close())
	}
}

// contender is an operation whose cost is compared. do runs it once; i differs from call to call.
type contender struct {
	name string
	do   func(i int)
}

// sliceLength is how many operations of a contender run before the next contender has its turn. A slice takes less
// than about a millisecond, so that other programs seldom interrupt it.
const sliceLength = 1024

// compare lets the contenders take turns, each with the given number of goroutines. It calls before ahead of each round
// with the number of operations. It reports how many times as long the first contender takes as each of the others.
func compare(b *testing.B, callers int, before func(n int), contenders []contender) {
	times := make([][]float64, len(contenders))
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for done := 0; done < b.N; done += sliceLength {
		n := min(sliceLength, b.N-done)
		before(n)
		for i, c := range contenders {
			if i == 0 {
				b.StartTimer()
			}
			start := time.Now()
			var group sync.WaitGroup
			for caller := range callers {
				group.Go(func() {
					for i := done + caller; i < done+n; i += callers {
						c.do(i)
					}
				})
			}
			group.Wait()
			times[i] = append(times[i], float64(time.Since(start)))
			b.StopTimer()
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	tenth := len(times[0]) / 10 // other programs only make slices longer, and the shortest slice is luck
	for i, c := range contenders[1:] {
		b.ReportMetric(times[0][tenth]/times[i+1][tenth], "x/"+c.name)
	}
}

// rateLimiters is the reference of limiters without feedback: a limiter of golang.org/x/time/rate for each route.
func rateLimiters(known []routes.CompiledRoute) func(i int) {
	var limiters sync.Map
	for _, route := range known {
		limiters.Store(route.Major().ID, rate.NewLimiter(1e9, 1e9))
	}
	return func(i int) {
		limiter, _ := limiters.Load(known[i%len(known)].Major().ID)
		_ = limiter.(*rate.Limiter).Wait(context.Background()) // it has room, so there is no error
	}
}

// floor is the least work of a limiter with feedback: reading the clock, and two look-ups under an uncontended lock.
func floor(known []routes.CompiledRoute) func(i int) {
	hashes, used := make(map[routes.Route]string), make(map[string]int)
	for _, route := range known {
		hashes[route.Route()], used[route.Major().ID] = "hash", 0
	}
	var mu sync.Mutex
	return func(i int) {
		route := known[i%len(known)]
		mu.Lock()
		defer mu.Unlock()
		if hashes[route.Route()] == "" || used[route.Major().ID] != 0 || time.Now().IsZero() {
			panic("bug: the route is in both maps")
		}
	}
}

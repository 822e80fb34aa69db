package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The benchmarks of this package measure our part of a request, in a bucket that is known and has room. The global
// limit is off, because every benchmark sends faster than it allows.

const (
	authorization = "Bot benchmark"
	manyBuckets   = 100_000
	hugeLimit     = 1_000_000_000
	firstChannel  = 900_000_000_000_000_000
)

// server returns the responses of a bucket that never gets full. Its responses change only in advance, so that a
// benchmark measures the limiter and not the server.
type server struct {
	closes time.Time
	header http.Header
	parsed ratelimits.Response
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

// advance counts n more requests, and makes the response to the last of them.
func (s *server) advance(n int) {
	s.count += n
	s.header.Set("X-Ratelimit-Remaining", strconv.Itoa(hugeLimit-s.count))
	s.header.Set("X-Ratelimit-Reset-After", fmt.Sprintf("%.3f", time.Until(s.closes).Seconds()))
	s.parsed = s.parse()
}

func (s *server) parse() ratelimits.Response {
	return ratelimits.ParseResponse(http.StatusOK, s.header, nil)
}

var answer = newServer().header

var patient = []buckets.Option{
	buckets.WithGlobalLimit(0), buckets.WithPollPeriod(time.Hour), buckets.WithExpireAfter(time.Hour),
}

// newManager returns a manager that has seen responses for every route.
func newManager(b *testing.B, s *server, known []routes.CompiledRoute) *buckets.RESTBucketManager {
	b.Helper()
	manager := buckets.NewRESTBucketManager(slices.Clone(patient)...)
	require.NoError(b, manager.Start())
	b.Cleanup(func() { require.NoError(b, manager.Close()) })
	for range 3 { // until the kind of the buckets is proven
		time.Sleep(5 * time.Millisecond)
		s.advance(len(known))
		for _, route := range known {
			cycle(b, manager, route, s.parsed)
		}
	}
	return manager
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

var sizes = []struct {
	name    string
	buckets int
}{{"one", 1}, {"many", manyBuckets}}

// BenchmarkAcquireUpdateRelease compares our part of a request with the references: the metrics "x/rate" and "x/floor"
// say how many times as long it takes.
func BenchmarkAcquireUpdateRelease(b *testing.B) {
	for _, size := range sizes {
		var known []routes.CompiledRoute
		for channel := range size.buckets {
			known = append(known, messageTo(b, channel))
		}
		s := newServer()
		manager := newManager(b, s, known)
		before := s.advance
		if size.buckets == 1 {
			before = func(n int) {
				if s.advance(n); !isFixed(manager) {
					require.NoError(b, manager.Close())
					manager = newManager(b, s, known)
				}
			}
		}
		for _, way := range []contender{
			{"parsed", func(i int) { cycle(b, manager, known[i%len(known)], s.parsed) }},
			{"parsing", func(i int) { cycle(b, manager, known[i%len(known)], s.parse()) }},
		} {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", way.name, size.name, callers), func(b *testing.B) {
					compare(b, callers, before, []contender{way, {"rate", rateLimiters(known)}, {"floor", floor(known)}})
				})
			}
		}
	}
}

// BenchmarkMatch compares matching a path with looking up its segments: "x/segments" says how many times as long it
// takes.
func BenchmarkMatch(b *testing.B) {
	for _, c := range []struct{ name, method, path string }{
		{"message", "POST", "/api/v10/channels/900000000000000000/messages"},
		{"reaction", "PUT", "/api/v10/channels/900000000000000000/messages/900000000000000001/reactions/%F0%9F%91%8D/@me"},
		{"unknown", "GET", "/api/v10/guilds/900000000000000000/something-new/900000000000000001"},
	} {
		b.Run(c.name, func(b *testing.B) {
			match := func(int) {
				if _, err := routes.Match(c.method, c.path); err != nil {
					b.Fatal(err)
				}
			}
			compare(b, 1, func(int) {}, []contender{{"match", match}, {"segments", segments(c.path)}})
		})
	}
}

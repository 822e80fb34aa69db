package dialects_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const trip = 40 * time.Millisecond

// server is an API that counts each request against all its quotas and answers in a dialect.
type server struct {
	quotas   []discordsim.Quota
	answer   func(states []discordsim.State, isFull bool, header http.Header) (status int, body string)
	undated  bool                     // responses have no Date
	resource func(path string) string // names the set of counters for a path; nil: one set for all paths

	mu      sync.Mutex
	counted map[string][]discordsim.Counter
	refused int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(trip / 2)
	response := s.process(r)
	time.Sleep(trip / 2)
	return response, nil
}

func (s *server) process(r *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := ""
	if s.resource != nil {
		resource = s.resource(r.URL.Path)
	}
	if s.counted == nil {
		s.counted = map[string][]discordsim.Counter{}
	}
	if s.counted[resource] == nil {
		s.counted[resource] = s.counters()
	}
	states, now := make([]discordsim.State, len(s.quotas)), time.Now()
	isFull := !take(now, s.counted[resource])
	for i, c := range s.counted[resource] {
		states[i] = c.State(now)
	}
	if isFull {
		s.refused++
	}
	header := http.Header{}
	if !s.undated {
		header.Set("Date", now.UTC().Format(http.TimeFormat))
	}
	if resource != "" {
		header.Set("X-RateLimit-Resource", resource)
	}
	status, body := s.answer(states, isFull, header)
	return &http.Response{StatusCode: status, Header: header, Body: textBody(body), Request: r}
}

func textBody(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

func (s *server) counters() (counters []discordsim.Counter) {
	for _, q := range s.quotas {
		c, err := discordsim.NewCounter(q)
		if err != nil {
			panic(err)
		}
		counters = append(counters, c)
	}
	return counters
}

// take counts a request in all counters, or in none if one of them is full. It reports whether it counted the request.
func take(now time.Time, counters []discordsim.Counter) bool {
	for _, c := range counters {
		if c.State(now).Remaining == 0 {
			return false
		}
	}
	for _, c := range counters {
		c.Take(now, discordsim.Own)
	}
	return true
}

// ideal returns how long n requests take a client that knows all counters of the server.
func (s *server) ideal(n int) time.Duration {
	start := time.Now()
	counters, now := s.counters(), start
	for n > 0 {
		if take(now, counters) {
			n--
			continue
		}
		wait := time.Duration(0)
		for _, c := range counters {
			wait = max(wait, c.State(now).RetryAfter)
		}
		now = now.Add(wait)
	}
	return now.Sub(start) + trip
}

// newTransport returns a transport that limits api.example with the given dialect.
func newTransport(t *testing.T, base http.RoundTripper, dialect httpclient.Dialect) *httpclient.Transport {
	t.Helper()
	transport := httpclient.NewTransport(
		httpclient.WithBase(base), httpclient.WithDialect("api.example", dialect),
		httpclient.WithHosts(func(host string) (string, bool) { return host, true }),
		httpclient.WithBuckets(buckets.WithMaxRateLimit(24*time.Hour)), httpclient.WithLogger(slog.New(slog.DiscardHandler)),
	)
	t.Cleanup(func() { assert.NoError(t, transport.Close()) })
	return transport
}

// get sends a request, reads the response, and returns its status and body.
func get(t *testing.T, transport http.RoundTripper, path string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, "https://api.example"+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer token")
	response, err := transport.RoundTrip(r)
	if !assert.NoError(t, err) {
		return 0, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	return response.StatusCode, string(content)
}

// getMany sends n requests from 10 goroutines to a number of paths, and returns how long the requests take. Each path
// belongs to a different route.
func getMany(t *testing.T, transport http.RoundTripper, n, paths int) time.Duration {
	t.Helper()
	start, next := time.Now(), make(chan string)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for path := range next {
				status, _ := get(t, transport, path)
				assert.Equal(t, http.StatusOK, status)
			}
		})
	}
	for i := range n {
		next <- "/items" + strings.Repeat("/item", i%paths)
	}
	close(next)
	all.Wait()
	return time.Since(start)
}

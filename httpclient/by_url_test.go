package httpclient_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// byURL is a server compatible with Discord that has a bucket for each URL of a method: so many requests in five
// seconds.
type byURL struct {
	limit  int
	name   func(r *http.Request) string // of the bucket; nil: the URL
	before bool                         // Remaining is that before the request
	trip   time.Duration

	mu      sync.Mutex
	used    map[string]*urlBucket
	refused int
}

type urlBucket struct {
	n     int
	reset time.Time
}

const urlWindow = 5 * time.Second

func (s *byURL) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.trip / 2)
	response, err := s.process(r)
	time.Sleep(s.trip / 2)
	return response, err
}

func (s *byURL) process(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.URL.Path
	if s.used == nil {
		s.used = map[string]*urlBucket{}
	}
	b := s.used[key]
	if b == nil || !time.Now().Before(b.reset) {
		b = &urlBucket{reset: time.Now().Add(urlWindow)}
		s.used[key] = b
	}
	name := strings.TrimPrefix(key, "/api/v10")
	if s.name != nil {
		name = s.name(r)
	}
	after := strconv.FormatFloat(time.Until(b.reset).Seconds(), 'f', 3, 64)
	headers := []string{"X-RateLimit-Bucket: " + name, "X-RateLimit-Limit: " + strconv.Itoa(s.limit), "X-RateLimit-Reset-After: " + after}
	if b.n >= s.limit {
		s.refused++
		headers = append(headers, "X-RateLimit-Remaining: 0", "Retry-After: "+after, "X-RateLimit-Scope: user")
		return answer(http.StatusTooManyRequests, `{"message":"You are being rate limited.","retry_after":`+after+`,"global":false}`, headers...)(r)
	}
	left := s.limit - b.n
	if b.n++; !s.before {
		left--
	}
	return answer(http.StatusOK, "{}", append(headers, "X-RateLimit-Remaining: "+strconv.Itoa(left))...)(r)
}

func TestRoutesWhoseEveryURLHasABucketOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 5, 10} {
		for _, before := range []bool{false, true} {
			for _, method := range []string{http.MethodPatch, http.MethodDelete} {
				for name, named := range map[string]func(*http.Request) string{"named by URL": nil, "opaque": func(r *http.Request) string { return fmt.Sprintf("%x", r.URL.Path) }} {
					t.Run(fmt.Sprint(method, limit, before, name), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							server := &byURL{limit: limit, before: before, trip: 100 * time.Millisecond, name: named}
							transport := newTransport(t, server, unlimitedBot())
							start := time.Now()
							var calls []*call
							for range min(limit, 5) {
								for i := range 10 {
									calls = append(calls, send(transport, newRequest(t, method, fmt.Sprintf("/api/v10/channels/1/messages/%d", 1000+i), "{}")))
									synctest.Wait() // they arrive in this order
								}
							}
							assertStatus(t, http.StatusOK, calls...)
							assert.Zero(t, server.refused)
							if limit > 1 || named == nil { // that of a bucket of one looks the same if all paths share it
								assert.LessOrEqual(t, time.Since(start), 700*time.Millisecond)
							}
						})
					})
				}
			}
		}
	}
}

package httpclient_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// blocking is a server compatible with Discord that has plenty of room for each path, and blocks the address for some
// time. Its refusals name one bucket that no other response names, and each of them prolongs the block.
type blocking struct {
	from, until time.Duration // since the start
	prolong     time.Duration

	mu      sync.Mutex
	start   time.Time
	refused int
}

func (s *blocking) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	defer time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	if s.from <= now && now < s.until {
		s.refused++
		s.until += s.prolong
		after := strconv.FormatFloat((s.until - now).Seconds(), 'f', 3, 64)
		return answer(http.StatusTooManyRequests, `{"message":"You are being rate limited.","retry_after":`+after+`,"global":false}`,
			"X-RateLimit-Bucket: error", "X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: "+after, "Retry-After: "+after)(r)
	}
	return answer(http.StatusOK, "{}", "X-RateLimit-Bucket: "+r.URL.Path, "X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 99",
		"X-RateLimit-Reset-After: 5.000")(r)
}

// kinds of paths: routes with and without major parameters, and one that has a bucket for each path.
var severalRoutes = []string{
	"POST /channels/1/messages", "POST /channels/2/messages", "GET /channels/1/messages", "GET /guilds/3", "GET /users/@me", "PATCH /channels/1/messages/7",
	"PATCH /channels/1/messages/8", "GET /users/@me/guilds", "DELETE /channels/2/messages/9",
}

func TestRefusalsInTheNameOfOneBucketHoldWhatWasRefusedInItsName(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &blocking{from: 10 * time.Second, until: 12 * time.Second, prolong: time.Second, start: time.Now()}
				transport := newTransport(t, server, unlimitedBot())
				request := func(route string) *http.Request {
					var method, path string
					_, err := fmt.Sscan(route, &method, &path)
					assert.NoError(t, err)
					return newRequest(t, method, "/api/v10"+path, "")
				}
				if known {
					for _, route := range severalRoutes {
						assertStatus(t, http.StatusOK, send(transport, request(route)))
					}
				}
				time.Sleep(10*time.Second - time.Since(server.start))
				var calls []*call
				for range 5 {
					for _, route := range severalRoutes {
						calls = append(calls, send(transport, request(route)))
						time.Sleep(10 * time.Millisecond)
					}
				}
				assertStatus(t, http.StatusOK, calls...)
				// Two of each route at most are under way when the first refusal comes; without a word of the others 74
				// and 36 are refused.
				assert.LessOrEqual(t, server.refused, 2*len(severalRoutes))
				start := time.Now()
				calls = nil
				for _, route := range severalRoutes {
					calls = append(calls, send(transport, request(route)))
				}
				assertStatus(t, http.StatusOK, calls...)
				assert.Less(t, time.Since(start), 250*time.Millisecond, "all is as it was")
			})
		})
	}
}

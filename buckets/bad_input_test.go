package buckets_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// nonsense draws a response that no sensible server would give.
func nonsense(t *rapid.T) ratelimits.Response {
	number := rapid.SampledFrom([]string{"", "0", "1", "5", "-1", "NaN", "1e400", "2147483647", "99999999999", "0.000", "x"})
	seconds := rapid.SampledFrom([]string{"", "0", "0.001", "1", "-5", "Inf", "315360000", "1e9", "82721", "1e300", "soon"})
	header := http.Header{}
	set := func(name string, values *rapid.Generator[string]) {
		if v := values.Draw(t, name); v != "" {
			header.Set(name, v)
		}
	}
	set("X-RateLimit-Bucket", rapid.SampledFrom([]string{"", "sane", "a", "b", "c", "d"}))
	set("X-RateLimit-Limit", number)
	set("X-RateLimit-Remaining", number)
	set("X-RateLimit-Reset-After", seconds)
	set("Retry-After", seconds)
	set("X-RateLimit-Scope", rapid.SampledFrom([]string{"", "user", "shared", "global", "nobody"}))
	status := rapid.SampledFrom([]int{200, 200, 204, 404, 429, 500, 0}).Draw(t, "status")
	body := rapid.SampledFrom([]string{"", "{}", "<html>", `{"retry_after": 1e9}`, `{"retry_after": 0.1, "global": true}`, "[", "null"}).Draw(t, "body")
	return ratelimits.ParseResponse(status, header, []byte(body))
}

// sensible is a server with five requests a second.
type sensible struct {
	opened time.Time
	used   int
}

func (s *sensible) answer() ratelimits.Response {
	if time.Since(s.opened) >= time.Second {
		s.opened, s.used = time.Now(), 0
	}
	s.used++
	header := http.Header{}
	header.Set("X-RateLimit-Bucket", "sane")
	header.Set("X-RateLimit-Limit", "5")
	header.Set("X-RateLimit-Remaining", strconv.Itoa(max(5-s.used, 0)))
	header.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", (time.Second-time.Since(s.opened)).Seconds()))
	if s.used > 5 {
		header.Set("X-RateLimit-Scope", "user")
		header.Set("Retry-After", header.Get("X-RateLimit-Reset-After"))
		return ratelimits.ParseResponse(http.StatusTooManyRequests, header, nil)
	}
	return ratelimits.ParseResponse(http.StatusOK, header, nil)
}

// A server that talks nonsense for a while neither stops a bucket for ever nor makes anybody spin, and afterwards
// everything is as if it had not.
func TestNonsenseHeals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		bad := make([]ratelimits.Response, rapid.IntRange(1, 30).Draw(rt, "bad"))
		for i := range bad {
			bad[i] = nonsense(rt)
		}
		var slow, again time.Duration
		var sent int
		synctest.Test(t, func(t *testing.T) {
			manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(1000*time.Hour), buckets.WithPollPeriod(time.Hour))
			require.NoError(t, manager.Start())
			defer manager.Close()
			route, err := routes.CreateMessage.Compile("1")
			require.NoError(t, err)
			var mu sync.Mutex
			var server sensible
			burst := func(n int) time.Duration {
				start := time.Now()
				var all sync.WaitGroup
				for range n {
					all.Go(func() {
						request := buckets.Request{Route: route, Authorization: "Bot x"}
						for {
							lease, err := manager.AcquireRequest(context.Background(), &request)
							if !assert.NoError(t, err) {
								return
							}
							time.Sleep(10 * time.Millisecond)
							mu.Lock()
							sent++
							answer := server.answer
							if len(bad) > 0 {
								first := bad[0]
								bad, answer = bad[1:], func() ratelimits.Response { return first }
							}
							response := answer()
							mu.Unlock()
							lease.Update(response)
							if response.Status != http.StatusTooManyRequests {
								return
							}
						}
					})
				}
				all.Wait()
				return time.Since(start)
			}
			for len(bad) > 0 {
				slow = max(slow, burst(10))
			}
			time.Sleep(25 * time.Hour) // no single word is believed for longer than a day
			burst(20)
			again = burst(50)
			stats := manager.Stats()
			assert.Zero(t, stats.Waiting)
			assert.Zero(t, stats.InFlight)
		})
		if slow > 32*24*time.Hour {
			rt.Fatalf("a burst took %v", slow)
		}
		if sent > 400 {
			rt.Fatalf("%d requests were sent for a hundred or two", sent)
		}
		if again > 20*time.Second {
			rt.Fatalf("long after the nonsense, 50 requests at 5 per second took %v", again)
		}
	})
}

func TestADifferentHashEachTimeDoesNotGrowMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0))
		require.NoError(t, manager.Start())
		defer manager.Close()
		for i := range 20_000 {
			route, err := routes.CreateMessage.Compile(strconv.Itoa(1 + i%100))
			require.NoError(t, err)
			lease, err := manager.Acquire(t.Context(), route, "Bot x")
			require.NoError(t, err)
			lease.Update(ratelimits.Response{
				Status: 200, Bucket: "hash" + strconv.Itoa(i), Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Millisecond,
			})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		assert.LessOrEqual(t, manager.Stats().Buckets, 1)
		assert.Equal(t, 1, manager.Stats().Routes)
	})
}

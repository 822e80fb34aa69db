package ratelimits_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// This file measures the cost of one request.

// ordinary returns the header of an ordinary answer. The names have the form in which net/http stores them.
func ordinary() http.Header {
	return http.Header{
		"Alt-Svc":                 {`h3=":443"; ma=86400`},
		"Cf-Cache-Status":         {"DYNAMIC"},
		"Cf-Ray":                  {"8a1b2c3d4e5f6071-FRA"},
		"Content-Type":            {"application/json"},
		"Date":                    {"Tue, 01 Jan 2030 00:00:00 GMT"},
		"Server":                  {"cloudflare"},
		"Via":                     {"1.1 google"},
		"X-Ratelimit-Bucket":      {"80c17d2f203122d936070c88c8d10f33"},
		"X-Ratelimit-Limit":       {"10"},
		"X-Ratelimit-Remaining":   {"9"},
		"X-Ratelimit-Reset":       {"1893456001.250"},
		"X-Ratelimit-Reset-After": {"1.250"},
	}
}

// refusal returns the header of a 429 of a bucket.
func refusal() http.Header {
	h := ordinary()
	h.Set("X-RateLimit-Remaining", "0")
	h.Set("X-RateLimit-Scope", "user")
	h.Set("Retry-After", "2")
	return h
}

// headerWithoutLimits returns the header of an answer that names no limits.
func headerWithoutLimits() http.Header {
	h := ordinary()
	for _, name := range []string{"Bucket", "Limit", "Remaining", "Reset", "Reset-After"} {
		h.Del("X-RateLimit-" + name)
	}
	return h
}

var refusalBody = []byte(`{"message": "You are being rate limited.", "retry_after": 1.25, "global": false}`)

var parsings = []struct {
	name   string
	status int
	header http.Header
	body   []byte
}{
	{"ordinary", http.StatusOK, ordinary(), nil},
	{"429", http.StatusTooManyRequests, refusal(), refusalBody},
	{"without limits", http.StatusOK, headerWithoutLimits(), nil},
}

var parsed ratelimits.Response // prevents the compiler from removing the calls

func BenchmarkParseResponse(b *testing.B) {
	for _, c := range parsings {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				parsed = ratelimits.ParseResponse(c.status, c.header, c.body)
			}
		})
	}
}

// course is a window in constant use: requests are sent at an even pace, and the same answers come again and again.
type course struct {
	name    string
	kind    ratelimits.Kind
	start   func(testing.TB) *bucket
	answers []ratelimits.Response
	pace    time.Duration
}

func courses() []course {
	var fixedWindow []ratelimits.Response // the answers of a one-second window in which 100 requests are sent
	for i := range 100 {
		fixedWindow = append(fixedWindow, ok(200, 199-i, second-time.Duration(i)*10*ms))
	}
	return []course{
		{"unproven", ratelimits.KindUnproven, newBucket, []ratelimits.Response{ok(5, 4, second)}, 1100 * ms},
		{"fixed", ratelimits.KindFixed, newBucket, fixedWindow, 10 * ms},
		{"log", ratelimits.KindLog, func(t testing.TB) *bucket { return proven(t, 50, []time.Duration{second}) },
			[]ratelimits.Response{ok(50, 39, second)}, 100 * ms},
		{"leaky", ratelimits.KindLeaky, func(t testing.TB) *bucket {
			return proven(t, 50, []time.Duration{20 * ms, 40 * ms, 60 * ms})
		}, []ratelimits.Response{ok(50, 48, 40*ms)}, 20 * ms},
	}
}

// proven returns a bucket whose kind is proven by its first answers, which name the given resets in turn.
func proven(t testing.TB, limit int, resets []time.Duration) *bucket {
	t.Helper()
	b := newBucket(t)
	for i := 0; b.Kind() == ratelimits.KindUnproven; i++ {
		require.Less(t, i, 10, "the kind is not proven")
		now := time.Duration(0)
		if len(resets) == 1 {
			now = time.Duration(i) * 10 * ms
		}
		b.exchange(now, ok(limit, limit-1-i, resets[i%len(resets)]))
	}
	return b
}

// play sends the request of step i, which is answered at once.
func (c *course) play(w *ratelimits.Window, i int) bool {
	now := second + time.Duration(i)*c.pace
	if at, ok := w.Next(now); !ok || at > now {
		return false
	}
	p, granted := w.Take(now)
	w.Report(now, p, c.answers[i%len(c.answers)])
	return granted
}

func TestNothingOfAnOrdinaryRequestAllocates(t *testing.T) {
	for _, c := range courses() {
		b, i := c.start(t), 0
		one := func() {
			if !c.play(&b.Window, i) {
				t.Fatalf("%s: nothing may leave at step %d", c.name, i)
			}
			i++
		}
		many := func() { // 20,000 requests in a run, because a list that grows allocates more and more rarely
			for range 20_000 {
				one()
			}
		}
		// AllocsPerRun calls many once before it counts, so the lists have already grown. It rounds the average down, so one
		// allocation by the runtime in five runs makes no difference.
		require.Zero(t, testing.AllocsPerRun(5, many), c.name)
		require.Equal(t, c.kind, b.Kind())
	}
	for name, take := range map[string]func(*ratelimits.Global, time.Duration) ratelimits.Slot{
		"global": func(g *ratelimits.Global, now time.Duration) ratelimits.Slot {
			slot, wait := g.Take(now)
			if wait > 0 {
				t.Fatal("no slot at", now)
			}
			return slot
		},
		"forced": (*ratelimits.Global).Force,
	} {
		g, now := ratelimits.NewGlobal(100), time.Duration(0)
		many := func() {
			for range 20_000 {
				now += 50 * ms
				g.Report(now+5*ms, take(g, now))
				g.Lost(take(g, now))
			}
		}
		require.Zero(t, testing.AllocsPerRun(5, many), name)
	}
	for _, c := range parsings {
		if c.status == http.StatusTooManyRequests {
			continue // encoding/json reads its body, and allocates
		}
		allocations := testing.AllocsPerRun(100, func() { parsed = ratelimits.ParseResponse(c.status, c.header, c.body) })
		require.Zero(t, allocations, c.name)
	}
}

func BenchmarkWindow(b *testing.B) {
	for _, c := range courses() {
		b.Run(c.name, func(b *testing.B) {
			w := c.start(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !c.play(&w.Window, i) {
					b.Fatal("nothing may leave at step", i)
				}
			}
			require.Equal(b, c.kind, w.Kind())
		})
	}
}

// Most buckets get only one or two requests, and each bucket has a new Window.
func BenchmarkWindowOfANewBucket(b *testing.B) {
	for _, requests := range []int{1, 2, 5} {
		b.Run(fmt.Sprintf("%d requests", requests), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var w ratelimits.Window
				for i := range requests {
					now := time.Duration(i) * 50 * ms
					p, granted := w.Take(now)
					if !granted {
						b.Fatal("nothing may leave")
					}
					w.Report(now+20*ms, p, ok(5, 4-i, second-now))
				}
			}
		})
	}
}

func BenchmarkGlobal(b *testing.B) {
	g := ratelimits.NewGlobal(50)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now := time.Duration(i) * 25 * ms
		slot, wait := g.Take(now)
		if wait > 0 {
			b.Fatal("no slot at step", i)
		}
		g.Report(now+5*ms, slot)
	}
}

package buckets_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Every option is set to extreme values. Nevertheless, requests must be granted, waits must end, and the manager must
// close.
func TestEveryOptionWorksAtItsExtremes(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	numbers := []int{math.MinInt, -1, 0, 1, 1 << 31, 1 << 40, math.MaxInt}
	options := map[string]buckets.Option{"nothing": nil, "no clock": buckets.WithClock(nil),
		"no logger": buckets.WithLogger(nil)}
	for _, d := range durations {
		options["max rate limit "+d.String()] = buckets.WithMaxRateLimit(d)
		options["poll period "+d.String()] = buckets.WithEviction(d, buckets.DefaultExpireAfter)
		options["expire after "+d.String()] = buckets.WithEviction(0, d)
		for _, n := range numbers {
			options["budget "+strconv.Itoa(n)+" "+d.String()] = buckets.WithInvalidBudget(n, d, 0)
		}
	}
	for _, n := range numbers {
		options["global limit "+strconv.Itoa(n)] = buckets.WithGlobalLimit(n)
		options["max waiting "+strconv.Itoa(n)] = buckets.WithMaxWaiting(n)
		options["margin "+strconv.Itoa(n)] = buckets.WithInvalidBudget(10, time.Minute, n)
		options["unknown mode "+strconv.Itoa(n&0xff)] = buckets.WithUnknownMode(buckets.UnknownMode(n & 0xff))
	}
	for name, option := range options {
		subtest(t, name, func(t *testing.T) {
			m := buckets.NewRESTBucketManager(option)
			require.NoError(t, m.Start())
			discover(t, m, message(1), limited("messages", 2, 1, time.Second))
			wait(2 * time.Second)
			discover(t, m, message(1), limited("messages", 2, 0, time.Second))
			waiting := ask(m, message(1))
			wait(3 * time.Second)
			require.True(t, waiting.done())
			if waiting.err == nil {
				waiting.update(plain(401))
			}
			m.Throttle(math.MaxInt64)
			require.NoError(t, m.Close())
			drained(t, m)
		})
	}
}

// If the expireAfter of WithEviction has its greatest value, a bucket and its state must still exist a day later.
func TestBucketThatIsKeptForEverIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithEviction(0, math.MaxInt64))
		discover(t, m, message(1), limited("messages", 1, 0, time.Hour))
		wait(10 * time.Minute)
		assert.Equal(t, 1, snapshot(t, m, "messages").Limit)
		assert.False(t, ask(m, message(1)).granted())
		wait(24 * time.Hour)
		snapshot(t, m, "messages")
	})
}

func TestContextsWorkAtTheirExtremes(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64} {
		bubble(t, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 1, 0, time.Second))
			c := patient(m, d)
			assert.Equal(t, d <= 1, c.done(), "%v", d)
			wait(2 * time.Second)
			require.True(t, c.done())
			c.lease.Return()

			ctx, cancel := context.WithDeadline(background, time.Unix(math.MaxInt64/2, 0))
			defer cancel()
			require.True(t, call(ctx, m, *request(message(1))).granted())
		})
	}
}

// angry is a log handler that panics.
type angry struct{ slog.Handler }

func (angry) Enabled(context.Context, slog.Level) bool  { return true }
func (angry) Handle(context.Context, slog.Record) error { panic("handler") }

// A hook or a log handler panics. The caller must get the panic. No lock may stay held, so that other requests are
// granted and the manager can close.
func TestPanicInACallersFunctionLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]buckets.Option{
		"waiting": buckets.WithHooks(buckets.Hooks{Waiting: func(context.Context, buckets.Waiting) { panic("hook") }}),
		"held":    buckets.WithHooks(buckets.Hooks{Held: func(context.Context, buckets.Held) { panic("hook") }}),
		"budget":  buckets.WithHooks(buckets.Hooks{BudgetUsed: func(context.Context, buckets.BudgetUsed) { panic("hook") }}),
		"logger":  buckets.WithLogger(slog.New(angry{})),
	} {
		subtest(t, name, func(t *testing.T) {
			m := buckets.NewRESTBucketManager(option,
				buckets.WithInvalidBudget(4, time.Minute, 0), buckets.WithGlobalLimit(0))
			require.NoError(t, m.Start())
			discover(t, m, message(1), limited("messages", 5, 4, time.Second))
			first := ask(m, message(1))
			panics := 0
			safely := func(f func()) {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				f()
			}
			safely(func() {
				first.lease.Update(usedUp("messages", 5, time.Second))
			})
			safely(func() { m.Throttle(time.Second) })
			safely(func() {
				ctx, cancel := context.WithTimeout(background, 3*time.Second)
				defer cancel()
				lease, _ := m.Acquire(ctx, message(1), bot)
				lease.Return()
			})
			wait(2 * time.Second)
			for range 2 {
				lease, err := m.Acquire(background, message(2), bot)
				require.NoError(t, err)
				safely(func() { lease.Update(plain(401)) })
			}
			assert.NotZero(t, panics)
			wait(5 * time.Second)
			lease, err := m.TryAcquire(message(1), bot)
			require.NoError(t, err)
			lease.Return()
			require.NoError(t, m.Close())
			drained(t, m)
		})
	}
}

// panicking is a store that panics in one of its calls. The field what has the name of that call.
type panicking struct {
	shared.Source
	what string
}

func (p *panicking) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	p.at("join")
	return &panickingSession{p.Source.Join(clock, origin), p}
}

func (p *panicking) at(what string) {
	if p.what == what {
		panic(what)
	}
}

type panickingSession struct {
	shared.Session
	store *panicking
}

func (s *panickingSession) Credential(authorization string) string {
	s.store.at("credential")
	return s.Session.Credential(authorization)
}

func (s *panickingSession) Global(credential string, limit int, changed func()) shared.Global {
	s.store.at("global")
	return s.Session.Global(credential, limit, changed)
}

func (s *panickingSession) Discovery(credential, route string, changed func()) shared.Discovery {
	s.store.at("discovery")
	return s.Session.Discovery(credential, route, changed)
}

// A store panics when it is asked for a session, credential, global limit or discovery. No lock may stay held, and
// later requests must be granted.
func TestPanicInAStoreThatBeginsLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"join", "credential", "global", "discovery"} {
		subtest(t, what, func(t *testing.T) {
			store := &panicking{Source: newStore(t), what: what}
			m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithGlobalLimit(50))
			if what == "join" {
				assert.Panics(t, func() { _ = m.Start() })
				store.what = ""
			}
			require.NoError(t, m.Start())
			if what != "join" {
				for range 3 {
					assert.Panics(t, func() { _, _ = m.Acquire(background, message(1), bot) })
				}
			}
			store.what = ""
			c := ask(m, message(2))
			wait(time.Second)
			answer(t, c, limited("messages", 5, 4, time.Second))
			require.NoError(t, m.Close())
			drained(t, m)
		})
	}
}

func (s *panickingSession) Bucket(key shared.Key, window *ratelimits.Window, changed func()) shared.Bucket {
	return &panickingBucket{s.Session.Bucket(key, window, changed), s.store}
}

type panickingBucket struct {
	shared.Bucket
	store *panicking
}

func (b *panickingBucket) Report(now time.Duration, p shared.Permit, r ratelimits.Response) {
	b.store.at("report")
	b.Bucket.Report(now, p, r)
}

func (b *panickingBucket) Demand(now time.Duration, waiting int, arrivals iter.Seq[time.Duration]) {
	b.store.at("demand")
	b.Bucket.Demand(now, waiting, arrivals)
}

// A store panics when it gets an outcome or the number of waiting requests. Other requests must still be granted.
func TestPanicInAStoreAtWorkLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"report", "demand"} {
		subtest(t, what, func(t *testing.T) {
			store := &panicking{Source: newStore(t)}
			m := started(t, buckets.WithShared(store))
			discover(t, m, message(1), limited("messages", 5, 4, time.Second))
			c := ask(m, message(1))
			wait(time.Second)
			require.True(t, c.granted())
			store.what = what
			assert.Panics(t, func() { c.lease.Update(limited("messages", 5, 3, time.Second)) })
			store.what = ""
			other := ask(m, list(1))
			wait(time.Second)
			require.True(t, other.granted(), "the lock is free")
			require.NoError(t, m.Close(), "Close works although the store did not take the outcome")
		})
	}
}

// extremeResponses returns responses with times and numbers that no header can hold. Only a caller's own code could
// create such responses.
func extremeResponses() (all []ratelimits.Response) {
	for class := range ratelimits.Class(ratelimits.NumClasses + 1) {
		for _, d := range []time.Duration{math.MinInt64, -1, math.MaxInt64 - 1, math.MaxInt64} {
			for _, n := range []int{math.MinInt, -1, 1, math.MaxInt32 + 1, math.MaxInt} {
				r := ratelimits.Response{
					Status: 429, Class: class, Bucket: "messages", Limited: true, Limit: n, Remaining: n, ResetAfter: d,
					HasRetryAfter: n > 1, RetryAfter: d, ResetRounding: d, Stamp: int64(n), Code: n,
				}
				if class == ratelimits.ClassOK {
					r.Status = 200
				}
				all = append(all, r)
			}
		}
	}
	return all
}

// A caller gives the manager a response with extreme values. Such a response may hold requests for at most a day, or
// for at most 10 s if its Retry-After is negative.
func TestResponsesWithFieldsAtTheirExtremesHoldNothingForEver(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]func(m *buckets.RESTBucketManager, c *caller, r ratelimits.Response){
		"update": func(_ *buckets.RESTBucketManager, c *caller, r ratelimits.Response) { c.update(r) },
		"update without a lease": func(m *buckets.RESTBucketManager, c *caller, r ratelimits.Response) {
			c.lease.Return()
			m.UpdateRateLimits(message(1), bot, r)
		},
		"headers first": func(_ *buckets.RESTBucketManager, c *caller, r ratelimits.Response) {
			c.lease.Refused(r)
			wait(time.Second)
			c.update(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range extremeResponses() {
				longest := ratelimits.LongestTrust
				if r.RetryAfter < 0 {
					longest = 10 * time.Second
				}
				bubble(t, func(t *testing.T) {
					m := started(t, buckets.WithMaxRateLimit(math.MaxInt64), buckets.WithHooks(buckets.Hooks{
						Held: func(_ context.Context, h buckets.Held) {
							assert.True(t, 0 < h.Wait && h.Wait <= longest, "held for %v by %+v", h.Wait, r)
						},
					}))
					discover(t, m, message(1), limited("messages", 5, 4, time.Second))
					c := ask(m, message(1))
					require.True(t, c.granted())
					tell(m, c, r)
					d, _ := predict(t, m, request(message(1)))
					assert.True(t, 0 <= d && d <= longest+time.Second, "%v by %+v", d, r)
				})
			}
		})
	}
}

// nonsense draws a response with random and mostly invalid values.
func nonsense(t *rapid.T) ratelimits.Response {
	number := rapid.SampledFrom([]string{"", "0", "1", "5", "-1", "NaN", "1e400", "2147483647",
		"99999999999", "0.000", "x"})
	seconds := rapid.SampledFrom([]string{"", "0", "0.001", "1", "-5", "Inf",
		"315360000", "1e9", "82721", "1e300", "soon"})
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
	body := rapid.SampledFrom([]string{"", "{}", "<html>", `{"retry_after": 1e9}`,
		`{"retry_after": 0.1, "global": true}`, "[", "null"}).Draw(t, "body")
	return ratelimits.ParseResponse(status, header, []byte(body))
}

// sensible simulates a server with a limit of five requests a second.
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

// A server sends nonsense for a while. Meanwhile, no bucket may stop for ever, and no request may be repeated again and
// again without a wait. A day later, bursts must be as fast as the server's limit allows.
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
			manager := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(1000*time.Hour),
				buckets.WithEviction(time.Hour, buckets.DefaultExpireAfter))
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
							lease, err := manager.AcquireRequest(background, &request)
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
			time.Sleep(25 * time.Hour) // no response holds anything for longer than a day
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
			rt.Fatalf("%d attempts were made for at most 100 requests", sent)
		}
		if again > 20*time.Second {
			rt.Fatalf("long after the nonsense, 50 requests at 5 per second took %v", again)
		}
	})
}

func TestADifferentHashEachTimeDoesNotGrowMemory(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for i := range 20_000 {
			sendNow(t, m, message(1+i%100), bot, limited("hash"+strconv.Itoa(i), 5, 4, time.Millisecond))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		assert.LessOrEqual(t, m.Stats().Buckets, 1)
		assert.Equal(t, 1, m.Stats().Routes)
	})
}

package buckets_test

import (
	"context"
	"iter"
	"log/slog"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// With every option at every extreme requests are granted, waits end, and the manager closes.
func TestEveryOptionWorksAtItsExtremes(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	numbers := []int{math.MinInt, -1, 0, 1, 1 << 31, 1 << 40, math.MaxInt}
	options := map[string]buckets.Option{"nothing": nil, "no clock": buckets.WithClock(nil), "no logger": buckets.WithLogger(nil)}
	for _, d := range durations {
		options["max rate limit "+d.String()] = buckets.WithMaxRateLimit(d)
		options["poll period "+d.String()] = buckets.WithPollPeriod(d)
		options["expire after "+d.String()] = buckets.WithExpireAfter(d)
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
			c := ask(m, message(1))
			require.True(t, c.granted())
			c.update(limited("messages", 2, 0, time.Second))
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

// However long a bucket is to be kept, what is known of it is.
func TestBucketThatIsKeptForEverIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithExpireAfter(math.MaxInt64))
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

			ctx, cancel := context.WithDeadline(context.Background(), time.Unix(math.MaxInt64/2, 0))
			defer cancel()
			far := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot})
			require.True(t, far.granted())
		})
	}
}

// angry panics whenever it is asked to log something.
type angry struct{ slog.Handler }

func (angry) Enabled(context.Context, slog.Level) bool  { return true }
func (angry) Handle(context.Context, slog.Record) error { panic("handler") }

// A panic in a function of the caller's is the caller's, and leaves nothing locked: others go on, and the manager
// closes.
func TestPanicInACallersFunctionLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]buckets.Option{
		"waiting": buckets.WithHooks(buckets.Hooks{Waiting: func(context.Context, buckets.Waiting) { panic("hook") }}),
		"held":    buckets.WithHooks(buckets.Hooks{Held: func(context.Context, buckets.Held) { panic("hook") }}),
		"budget":  buckets.WithHooks(buckets.Hooks{BudgetUsed: func(context.Context, buckets.BudgetUsed) { panic("hook") }}),
		"logger":  buckets.WithLogger(slog.New(angry{})),
	} {
		subtest(t, name, func(t *testing.T) {
			m := buckets.NewRESTBucketManager(option, buckets.WithInvalidBudget(4, time.Minute, 0), buckets.WithGlobalLimit(0))
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
				first.lease.Update(inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 5, 0, time.Second))
			})
			safely(func() { m.Throttle(time.Second) })
			safely(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				defer cancel()
				lease, _ := m.Acquire(ctx, message(1), bot)
				lease.Return()
			})
			wait(2 * time.Second)
			for range 2 {
				lease, err := m.Acquire(context.Background(), message(2), bot)
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

// panicking is a store that panics when a session asks it for something by that name, as long as it is told to.
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

// A store that cannot even begin is in nobody's way.
func TestPanicInAStoreThatBeginsLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"join", "credential", "global", "discovery"} {
		subtest(t, what, func(t *testing.T) {
			store := &panicking{Source: newHub(t), what: what}
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
			require.True(t, c.granted())
			c.update(limited("messages", 5, 4, time.Second))
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

// A store that panics while an outcome is told, or while it is told who waits, stops nobody else.
func TestPanicInAStoreAtWorkLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"report", "demand"} {
		subtest(t, what, func(t *testing.T) {
			store := &panicking{Source: newHub(t)}
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
			require.NoError(t, m.Close(), "what was not told has not ended")
		})
	}
}

package buckets_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

func TestOnlyThoseWaitToWhomADeclaredLimitApplies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithKnownLimits(buckets.ChannelNameAndTopic))
		ample := limited("channel", 100, 90, time.Second)
		discover(t, m, compile(routes.UpdateChannel, "1"), ample)
		for range 2 {
			c := call(context.Background(), m, change("1", "name"))
			answer(t, c, ample)
		}
		third, fourth := call(context.Background(), m, change("1", "name")), call(context.Background(), m, change("1", "name"))
		require.False(t, third.done())
		assert.Equal(t, buckets.WaitsForDeclared, snapshot(t, m, "channel").WaitsFor)
		for _, other := range []buckets.Request{change("1", "nsfw"), change("2", "name")} {
			c := call(context.Background(), m, other)
			require.True(t, c.granted(), "%v is not subject to it", other)
			c.update(ample)
		}
		wait(9 * time.Minute)
		require.False(t, third.done())
		wait(time.Minute + time.Second)
		require.True(t, third.granted())
		require.True(t, fourth.granted())
	})
}

func TestWaitForADeclaredLimitIsPredicted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute), buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 20*time.Second,
			buckets.Named("two"), buckets.PerMajor()))
		ample := limited("messages", 100, 90, time.Second)
		for range 2 {
			discover(t, m, message(1), ample)
		}
		for waiting := range 6 {
			predicted, because, err := m.Predict(request(message(1)))
			require.NoError(t, err)
			assert.Equal(t, buckets.WaitsForDeclared, because)
			assert.InDelta(t, time.Duration(1+waiting/2)*20*time.Second, predicted, float64(time.Second), "%d wait already", waiting)
			buckets.AcquireFunc(context.Background(), m, request(message(1)), func(lease buckets.Lease, err error) { lease.Update(ample) })
		}
		_, err := m.AcquireRequest(context.Background(), request(message(1)))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, "two", tooLong.Declared)
		assert.Equal(t, 2, tooLong.Limit)
		assert.Equal(t, 20*time.Second, tooLong.Period)
		assert.ErrorContains(t, err, `for the declared limit "two" (2 requests per 20s)`)
	})
}

// What a request has of a declared limit it gives back if it was not sent, or was refused; else it counts for a period.
func TestDeclaredLimitCountsWhatIsSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end    func(c *caller)
		counts bool
	}{
		"answered": {func(c *caller) { c.update(limited("messages", 100, 99, time.Second)) }, true},
		"failed":   {func(c *caller) { c.update(plain(502)) }, true},
		"lost":     {func(c *caller) { c.lease.Release() }, true},
		"returned": {func(c *caller) { c.lease.Return() }, false},
		"refused": {func(c *caller) {
			c.update(inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 100, 99, time.Second))
		}, false},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute))
			discover(t, m, message(1), limited("messages", 100, 99, time.Second))
			wait(2 * time.Minute)
			c := ask(m, message(1))
			require.True(t, c.granted())
			next := ask(m, message(1))
			require.False(t, next.done(), "one is in flight")
			test.end(c)
			wait(10 * time.Second)
			assert.Equal(t, !test.counts, next.granted())
			wait(51 * time.Second)
			require.True(t, next.granted())
		})
	}
}

// limitedLog counts what a server has processed of each window of a declared limit.
type limitedLog struct {
	limit  int
	period time.Duration

	mu    sync.Mutex
	times map[string][]time.Time
}

func newLimitedLog(limit int, period time.Duration) *limitedLog {
	return &limitedLog{limit: limit, period: period, times: map[string][]time.Time{}}
}

func (l *limitedLog) process(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[key] = append(l.times[key], time.Now())
}

// exceeded counts the requests that were processed beyond the limit.
func (l *limitedLog) exceeded() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range l.times {
		for i := l.limit; i < len(all); i++ {
			if all[i].Sub(all[i-l.limit]) < l.period {
				n++
			}
		}
	}
	return n
}

// A group and a key are two things, whatever they are called.
func TestGroupsAndKeysAreNotMixedUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute, buckets.PerGroup(),
			buckets.PerKey(func(r *buckets.Request) string { return r.Route.Major().ID })))
		discover(t, m, message(100), roomy)
		for _, of := range []struct {
			group   string
			channel int
		}{{"1", 23}, {"12", 3}} {
			c := call(context.Background(), m, buckets.Request{Route: message(of.channel), Authorization: bot, Group: of.group})
			require.True(t, c.granted(), "%+v", of)
			c.update(roomy)
		}
	})
}

// A declared limit that has room makes nobody wait, but those to whom it applies wait for their bucket all the same:
// they are counted there, whatever keys they have, and nobody waits much longer than he may.
func TestWhoIsSubjectToADeclaredLimitIsCountedInHisBucket(t *testing.T) {
	t.Parallel()
	firstField := func(r *buckets.Request) string {
		if r.Fields == nil {
			return ""
		}
		return r.Fields()[0]
	}
	for name, options := range map[string][]buckets.LimitOption{
		"together":  nil,
		"per key":   {buckets.PerKey(firstField)},
		"per group": {buckets.PerGroup()},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(10*time.Second), buckets.WithLimit(buckets.ForAll(), 100, time.Minute, options...))
			used := limited("messages", 1, 0, time.Second)
			discover(t, m, message(1), used)
			var longest time.Duration
			refused, start := 0, time.Now()
			for i := range 50 {
				r := request(message(1))
				r.Fields = func() []string { return []string{strconv.Itoa(i)} }
				if name == "per group" {
					r.Group = strconv.Itoa(i)
				}
				buckets.AcquireFunc(context.Background(), m, r, func(lease buckets.Lease, err error) {
					if err != nil {
						refused++
						return
					}
					longest = time.Since(start)
					lease.Update(used)
				})
				synctest.Wait()
			}
			wait(time.Minute)
			assert.InDelta(t, 10*time.Second, longest, float64(2*time.Second))
			assert.InDelta(t, 40, refused, 2)
		})
	}
}

// countingClock counts how often its timers have fired.
type countingClock struct {
	clockwork.Clock
	fired atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	return c.Clock.AfterFunc(d, func() {
		c.fired.Add(1)
		f()
	})
}

// Only their end can tell how long requests in flight count for a declared limit, so nobody looks until then.
func TestWhoWaitsForAnOutcomeUnderADeclaredLimitPollsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		clock := &countingClock{Clock: clockwork.NewRealClock()}
		m := started(t, buckets.WithClock(clock), buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 2, 10*time.Second))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		first := ask(m, message(1))
		require.True(t, first.granted())
		second := ask(m, message(1))
		wait(time.Millisecond)
		third := ask(m, message(2))
		wait(11 * time.Second)
		require.True(t, second.granted())
		fired := clock.fired.Load()
		wait(10 * time.Second)
		assert.LessOrEqual(t, clock.fired.Load(), fired+2)
		require.False(t, third.granted())
		first.update(ample)
		second.update(ample)
		wait(11 * time.Second)
		require.True(t, third.granted())
	})
}

// What others have sent, of which only the response is told, counts for declared limits, too.
func TestDeclaredLimitCountsWhatOthersSend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 2, time.Minute))
		ample := limited("messages", 100, 99, time.Second)
		discover(t, m, message(1), ample)
		m.UpdateRateLimits(message(2), bot, inBucket(refused(ratelimits.ClassUser, time.Second), "messages", 100, 0, time.Second))
		m.UpdateRateLimits(message(1), bot, ample)
		c := ask(m, message(1))
		require.False(t, c.done(), "two have been sent")
		wait(61 * time.Second)
		require.True(t, c.granted())
	})
}

// A reservation that is put off, as what it waits for is held for longer, holds up others no longer than until their
// bucket opens for them.
func TestAReservationThatIsPutOffHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const period = 70 * time.Second
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		hook := webhookPost("token")
		for _, credential := range []string{"Bot one", "Bot two", "Bot three"} {
			as(m, credential, list(1)).update(roomy)
		}
		discoverPunctual(t, m, hook, limited("posts", 2, 0, period))
		early, late := as(m, "Bot one", list(1)), as(m, "Bot one", list(1))
		require.True(t, early.granted() && late.granted())
		first := as(m, "Bot one", hook)
		wait(time.Millisecond)
		second, third := as(m, "Bot two", hook), as(m, "Bot three", hook)
		wait(period - 10*time.Second)
		early.update(refused(ratelimits.ClassGlobal, 60*time.Second)) // 50 s after the bucket opens
		wait(10*time.Second + roundings)
		require.False(t, first.done())
		require.True(t, second.granted())
		require.False(t, third.done(), "the place is the first one's, which leaves earlier than the bucket opens again")
		second.update(limited("posts", 2, 1, period))
		wait(10 * time.Second)
		late.update(refused(ratelimits.ClassGlobal, 10*time.Minute))
		require.False(t, first.done())
		wait(period)
		assert.True(t, third.granted(), "the bucket is open for two since 10 s, and the first one has 9 minutes to wait")
	})
}

// The same for a request that is subject to declared limits: others leave as soon as it is known that it leaves later.
func TestAReservationThatIsPutOffFreesDeclaredLimitsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForAll(), 4, 5*time.Minute),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 2, 3*time.Minute))
		as(m, "Bot two", message(1)).update(limited("messages", 5, 4, time.Second))
		other := as(m, "Bot two", message(1))
		discoverPunctual(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		discover(t, m, list(1), limited("lists", 100, 99, time.Minute))
		for _, group := range []string{"a", "b"} {
			c := call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: group})
			require.False(t, c.done())
			wait(time.Millisecond)
		}
		wait(11 * time.Second) // both go on to wait for the declared limit
		c := ask(m, list(1))
		require.False(t, c.done(), "the last place of five minutes is that of the first message in three")
		other.update(inBucket(refused(ratelimits.ClassShared, 10*time.Minute), "messages", 5, 4, time.Second))
		assert.True(t, c.granted(), "the message leaves in ten minutes at the earliest")
	})
}

package buckets_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// rename is a request that changes a channel's name, edit one that changes something else of it. They are in one
// bucket.
func rename(channel string) buckets.Request {
	r := edit(channel)
	r.Fields = func() []string { return []string{"name"} }
	return r
}

func edit(channel string) buckets.Request {
	return buckets.Request{Route: compile(routes.UpdateChannel, channel), Authorization: bot, Fields: func() []string { return []string{"nsfw"} }}
}

func TestOnlyThoseWaitToWhomADeclaredLimitApplies(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithKnownLimits(buckets.ChannelNameAndTopic))
		ample := limited("channel", 100, 90, time.Second)
		discover(t, m, compile(routes.UpdateChannel, "1"), ample)
		for range 2 {
			c := call(context.Background(), m, rename("1"))
			require.True(t, c.granted())
			c.update(ample)
		}
		third, fourth := call(context.Background(), m, rename("1")), call(context.Background(), m, rename("1"))
		require.False(t, third.done())
		assert.Equal(t, buckets.WaitsForDeclared, snapshot(t, m, "channel").WaitsFor)
		for _, other := range []buckets.Request{edit("1"), rename("2")} {
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

func TestWhoGivesUpWaitingForADeclaredLimitLetsTheOthersUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithLimit(buckets.ForAll(), 1, time.Minute))
		discover(t, m, message(1), limited("messages", 100, 99, time.Second))
		all := asks(m, message(1), 3)
		wait(time.Second)
		other := ask(m, message(2)) // in another bucket, for the same limit
		all[0].cancel()
		for _, c := range []*caller{all[1], other, all[2]} { // buckets take turns
			require.False(t, c.done())
			wait(61 * time.Second)
			require.True(t, c.granted())
			c.update(limited("messages", 100, 99, time.Second))
		}
	})
}

// One that waits for a bucket which is held keeps nothing of a limit that others can use.
func TestWhoWaitsForAHeldBucketKeepsNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithLimit(buckets.ForAll(), 1, time.Second))
		ample := limited("messages", 100, 99, time.Second)
		for channel := range 2 {
			discover(t, m, message(channel+1), ample)
			wait(2 * time.Second)
		}
		first, held := ask(m, message(1)), ask(m, message(1))
		require.True(t, first.granted())
		first.update(inBucket(refused(ratelimits.ClassUser, time.Hour), "messages", 100, 0, time.Hour))
		for range 10 {
			c := ask(m, message(2))
			wait(4 * time.Second)
			require.True(t, c.granted())
			c.update(ample)
		}
		wait(time.Hour)
		require.True(t, held.granted())
	})
}

func TestCloseEndsTheWaitForADeclaredLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForAll(), 1, time.Minute))
		discover(t, m, message(1), limited("messages", 100, 99, time.Second))
		c := ask(m, message(1))
		require.False(t, c.done())
		m.Close()
		synctest.Wait()
		require.ErrorIs(t, c.failed(), buckets.ErrClosed)
		require.NoError(t, m.Start())
		c = ask(m, message(1))
		require.True(t, c.granted(), "it has forgotten everything")
	})
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

package buckets_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// counted makes the managers take turns to send n messages to each of three channels, of which two are in one group. It
// calls judge when the server processes a message, and returns the time until the last call of judge.
func counted(t *testing.T, all []*world, n int, judge func(channel int)) time.Duration {
	t.Helper()
	var mu sync.Mutex
	start, last := time.Now(), time.Time{}
	for i := range 3 * n {
		w, channel := all[i/3%len(all)], 1+i%3
		r := &buckets.Request{Route: message(channel), Authorization: bot, Group: strconv.Itoa(channel % 2)}
		buckets.AcquireFunc(background, w.manager, r, func(lease buckets.Lease, err error) {
			if assert.NoError(t, err) {
				w.all.Go(func() {
					time.Sleep(10 * time.Millisecond)
					mu.Lock()
					judge(channel)
					last = time.Now()
					mu.Unlock()
					response, err := w.attempt(background, "POST", "/channels/"+strconv.Itoa(channel)+"/messages", i)
					assert.NoError(t, err)
					lease.Update(response)
				})
			}
		})
		time.Sleep(100 * time.Microsecond)
	}
	wait(10 * time.Minute)
	for _, w := range all {
		require.Zero(t, w.manager.Stats().Waiting, "no request may wait for ever")
	}
	return last.Sub(start)
}

// Together, managers that share declared limits must not exceed these limits. The managers must be as fast as one
// manager, even when other limits apply to the same requests.
func TestManagersShareDeclaredLimits(t *testing.T) {
	t.Parallel()
	type limit struct {
		limit  int
		period time.Duration
		option buckets.LimitOption
		key    func(channel int) string
	}
	route := limit{5, 10 * time.Second, nil, func(int) string { return "" }}
	inGroup := func(channel int) string { return strconv.Itoa(channel % 2) }
	group := limit{2, 4 * time.Second, buckets.PerGroup(), inGroup}
	channel := limit{3, time.Minute, buckets.PerMajor(), strconv.Itoa}
	for name, c := range map[string]struct {
		quota  discordsim.Quota
		limits []limit
		within time.Duration // 12 messages to each of three channels, of which two are in one group
	}{
		"one limit":          {discordsim.Fixed(100, time.Second), []limit{route}, 71 * time.Second},
		"a slow bucket, too": {discordsim.Fixed(1, 3*time.Second), []limit{route}, 73 * time.Second},
		// The last request is sent after seven periods of the route's limit and at most one of the group's limit.
		"two limits":          {discordsim.Fixed(100, time.Second), []limit{route, group}, 75 * time.Second},
		"three limits":        {discordsim.Fixed(2, time.Second), []limit{route, group, channel}, 204 * time.Second},
		"nothing but channel": {discordsim.Fixed(5, time.Second), []limit{channel}, 185 * time.Second},
	} {
		for _, managers := range []int{1, 2, 3} {
			subtest(t, name+" "+strconv.Itoa(managers), func(t *testing.T) {
				var options []buckets.Option
				var logs []*limitedLog
				for _, l := range c.limits {
					name := buckets.Named(l.period.String())
					options = append(options,
						buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), l.limit, l.period, name, l.option))
					logs = append(logs, newLimitedLog(l.limit, l.period))
				}
				all := fleet(t, newStore(t), managers, one(discordsim.Rule{Quota: c.quota}), options...)
				took := counted(t, all, 12, func(channel int) {
					for i, log := range logs {
						log.process(c.limits[i].key(channel))
					}
				})
				for _, log := range logs {
					assert.Zero(t, log.exceeded(), "at most %d per %v may be processed", log.limit, log.period)
				}
				assert.LessOrEqual(t, took, c.within)
				assert.Zero(t, refusals(all[0].Server))
			})
		}
	}
}

// pairDeclares returns two managers that share a declared limit of one request a minute, and know the bucket of a
// route.
func pairDeclares(t *testing.T, s shared.Source, options ...buckets.Option) (a, b *buckets.RESTBucketManager) {
	t.Helper()
	a, b = pair(t, s, append([]buckets.Option{
		buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Minute, buckets.Named("one"), buckets.PerMajor()),
	}, options...)...)
	for _, m := range []*buckets.RESTBucketManager{a, b} {
		discoverShared(t, m, message(1), ample)
		wait(61 * time.Second)
	}
	return a, b
}

var ample = limited("messages", 100, 99, time.Second)

// A request that must not wait must be rejected when another manager has used up the limit, and be granted when the
// limit has room again.
func TestTryAcquireAsksForSharedDeclaredLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pairDeclares(t, newStore(t))
		first := rightNow(a, message(1))
		require.True(t, first.granted())
		assert.Equal(t, "one", tooLong(t, rightNow(b, message(1))).Declared)
		first.update(ample)
		wait(time.Second)
		assert.InDelta(t, 59*time.Second, tooLong(t, rightNow(b, message(1))).Wait, float64(2*time.Second))
		wait(time.Minute)
		second := rightNow(b, message(1))
		require.True(t, second.granted())
		second.lease.Return()
		exchanged()
		require.True(t, askShared(a, message(1)).granted(), "the second request was not sent")
	})
}

// If a source does not share declared limits, each manager has its own. A request that must not wait must be rejected
// at once when the limit is used up.
func TestTryAcquireFailsAtOnceIfDeclaredLimitsAreNotShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pairDeclares(t, byRoute{newStore(t)})
		require.True(t, rightNow(a, message(1)).granted())
		c := call(buckets.ContextWithMaxWait(background, 0), a, *request(message(1)))
		assert.Equal(t, "one", tooLong(t, c).Declared)
		assert.True(t, askShared(b, message(1)).granted())
	})
}

// The permit of a request that is cancelled or given back must be available to the other manager.
func TestCancelledWaitersGiveSharedDeclaredLimitsBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pairDeclares(t, newStore(t))
		first, cancelled, next := askShared(a, message(1)), ask(a, message(1)), askShared(b, message(1))
		require.True(t, first.granted())
		cancelled.cancel()
		first.update(ample)
		wait(61 * time.Second)
		require.True(t, next.granted())
		next.lease.Return()
		exchanged()
		discoverShared(t, a, message(1), ample)
	})
}

// A request that waits for a shared declared limit must fail with the error of an outage: when its max wait is over, or
// at once if the policy says so.
func TestOutageOfSharedDeclaredLimits(t *testing.T) {
	t.Parallel()
	for policy, after := range map[shared.Outage]time.Duration{shared.OutageWait: 2 * time.Minute, shared.OutageFail: 0} {
		subtest(t, policy.String(), func(t *testing.T) {
			s := newStore(t, shared.WithOutage(policy))
			a, _ := pairDeclares(t, s)
			first := askShared(a, message(1))
			require.True(t, first.granted())
			waits := call(buckets.ContextWithMaxWait(background, 2*time.Minute), a, *request(message(1)))
			s.outage(true)
			_, err := a.TryAcquire(message(1), bot)
			require.ErrorIs(t, err, shared.ErrOutage)
			first.update(ample)
			wait(after)
			require.ErrorIs(t, waits.failed(), shared.ErrOutage)
			s.outage(false)
			wait(time.Minute - after)
			require.True(t, askShared(a, message(1)).granted())
		})
	}
}

// An idle declared limit is evicted. The permits that were used before the eviction must still count when a manager
// uses the limit again.
func TestEvictedSharedDeclaredLimitKeepsItsCharges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pairDeclares(t, newStore(t), buckets.WithEviction(time.Second, buckets.DefaultExpireAfter))
		for range 3 {
			for _, m := range []*buckets.RESTBucketManager{a, b} {
				discoverShared(t, m, message(1), ample)
				other := ask(m, message(1))
				wait(30 * time.Second)
				require.False(t, other.done())
				other.cancel()
				wait(45 * time.Second)
			}
		}
	})
}

// A request that waits for one declared limit keeps its place in the queue of another limit for only two seconds. After
// that, requests of other managers that do not need the first limit are sent.
func TestPlaceInASharedDeclaredLimitIsKeptForTwoSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pairDeclares(t, newStore(t), buckets.WithMaxRateLimit(time.Hour),
			buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Hour, buckets.Named("group"), buckets.PerGroup()))
		inGroup := func(m *buckets.RESTBucketManager) *caller {
			return call(background, m, buckets.Request{Route: message(1), Authorization: bot, Group: "group"})
		}
		first := inGroup(a)
		answer(t, first, ample)
		wait(2 * time.Minute)
		waits := inGroup(a) // waits an hour for the group's limit
		require.False(t, waits.done())
		c := ask(b, message(1))
		wait(1900 * time.Millisecond)
		require.False(t, c.granted())
		wait(600 * time.Millisecond)
		answer(t, c, ample)
		wait(2 * time.Hour)
		answer(t, waits, ample)
		wait(2 * time.Minute)
	})
}

// fickle is a store in which the next Take of the bucket with the hash in the field hash fails, because another manager
// was faster.
type fickle struct {
	shared.Source
	hash string
}

type fickleSession struct {
	shared.Session
	store *fickle
}

type fickleBucket struct {
	shared.Bucket
	hash    string
	store   *fickle
	changed func()
}

func (f *fickle) Join(clock clockwork.Clock, origin time.Time) shared.Session {
	return fickleSession{f.Source.Join(clock, origin), f}
}

func (s fickleSession) Bucket(key shared.Key, window *ratelimits.Window, changed func()) shared.Bucket {
	return fickleBucket{s.Session.Bucket(key, window, changed), key.Hash, s.store, changed}
}

func (b fickleBucket) Take(now time.Duration) (shared.Permit, bool) {
	if b.hash == b.store.hash {
		b.store.hash = ""
		time.AfterFunc(time.Millisecond, b.changed)
		return nil, false
	}
	return b.Bucket.Take(now)
}

// A request needs several permits, and one Take fails. The request must give back its other permits and its place in
// the budget of invalid requests.
func TestRequestReturnsItsPermitsIfOneIsGone(t *testing.T) {
	t.Parallel()
	for _, hash := range []string{"declared:first 5/1m0s", "declared:second 5/1m0s", "messages"} {
		subtest(t, hash, func(t *testing.T) {
			s := &fickle{Source: newStore(t)}
			m := started(t, buckets.WithShared(s), buckets.WithMaxRateLimit(time.Hour),
				buckets.WithLimit(buckets.ForAll(), 5, time.Minute, buckets.Named("first")),
				buckets.WithLimit(buckets.ForAll(), 5, time.Minute, buckets.Named("second")))
			discover(t, m, message(1), ample)
			wait(61 * time.Second)
			s.hash = hash
			all := asks(m, message(1), 6)
			wait(10 * time.Millisecond)
			assert.Empty(t, s.hash)
			assert.Equal(t, 5, granted(t, all))
			all[5].cancel()
			for _, c := range all[:5] {
				c.update(ample)
			}
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			assert.NoError(t, m.Shutdown(ctx), "no request is in flight any more")
		})
	}
}

package buckets_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// lending returns a hub that lends buckets which one manager uses alone, and two managers that know a bucket of the
// limit.
func lending(t *testing.T, limit int) (h *hub, a, b *buckets.RESTBucketManager) {
	t.Helper()
	h = newHub(t)
	a, b = pair(t, h)
	known(t, limit, a, b)
	h.set(func(h *hub) { h.term = 3 * time.Second })
	return h, a, b
}

func (h *hub) count(what func(h *hub) int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return what(h)
}

func (h *hub) lent() int { return h.count(func(h *hub) int { return h.loans - h.returned }) }

func TestLoanContinuesTheSharedWindow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, b := lending(t, 3)
		c := ask(b, message(1)) // the bucket is lent to b
		require.Equal(t, 1, h.lent())
		c.update(limited("messages", 3, 2, time.Second))
		d := ask(a, message(1)) // b returns it, because a needs it
		require.Equal(t, 0, h.lent())
		require.True(t, d.granted())
		all := asks(a, message(1), 2)
		assert.Equal(t, 1, granted(t, all), "b's request counts")
		d.update(limited("messages", 3, 1, time.Second))
		all[0].update(limited("messages", 3, 0, time.Second))
		wait(1100 * time.Millisecond)
		require.Equal(t, 2, granted(t, all))
		all[1].update(limited("messages", 3, 2, time.Second))
		last := asks(a, message(1), 3)
		require.Equal(t, 1, h.lent(), "to a, which uses the bucket alone again")
		assert.Equal(t, 2, granted(t, last), "the window has one used permit")
		for _, c := range last[:2] {
			c.lease.Release()
		}
		last[2].cancel()
	})
}

func TestLoanIsReturnedWithRequestsInFlight(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, h *hub, b *buckets.RESTBucketManager) *caller{
		"wanted": func(_ *testing.T, _ *hub, b *buckets.RESTBucketManager) *caller { return ask(b, message(1)) },
		"ended by time": func(_ *testing.T, h *hub, b *buckets.RESTBucketManager) *caller {
			h.set(func(h *hub) { h.renews = false })
			wait(3100 * time.Millisecond)
			return ask(b, message(1))
		},
	} {
		subtest(t, name, func(t *testing.T) {
			h, a, b := lending(t, 3)
			wait(time.Second) // the bucket has opened long ago, so no request goes first
			mine := asks(a, message(1), 5)
			require.Equal(t, 3, granted(t, mine))
			require.Equal(t, 1, h.lent())
			wait(time.Millisecond)
			theirs := end(t, h, b)
			require.Equal(t, 0, h.lent())
			require.False(t, theirs.done(), "three requests of a are in flight, and two wait")
			mine[0].update(limited("messages", 3, 2, time.Second))
			mine[1].lease.Return()
			synctest.Wait()
			require.Equal(t, 4, granted(t, mine), "requests of a arrived earlier")
			require.False(t, theirs.done())
			mine[2].update(limited("messages", 3, 1, time.Second))
			mine[3].update(limited("messages", 3, 0, time.Second))
			wait(1100 * time.Millisecond)
			assert.True(t, mine[4].granted() && theirs.granted())
			mine[4].lease.Release()
			theirs.lease.Release()
			drained(t, a)
			drained(t, b)
			assert.Len(t, h.told(), 7, "reports of five requests, and of the two that found the bucket")
		})
	}
}

func (h *hub) told() []hubReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reports
}

func TestLoanIsExtended(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, _ := lending(t, 1)
		for range 20 {
			lease, err := a.TryAcquire(message(1), bot)
			require.NoError(t, err)
			lease.Update(limited("messages", 1, 0, time.Second))
			_, err = a.TryAcquire(message(1), bot)
			require.Error(t, err)
			wait(1100 * time.Millisecond)
		}
		assert.Equal(t, 1, h.count(func(h *hub) int { return h.loans }))
		reports := len(h.told())
		assert.Equal(t, 2, reports, "only the reports before the loan")
	})
}

// A loan has ended without a call of changed. The next request returns it first.
func TestNextRequestReturnsAnEndedLoan(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(a *buckets.RESTBucketManager) (buckets.Lease, error){
		"try": func(a *buckets.RESTBucketManager) (buckets.Lease, error) { return a.TryAcquire(message(1), bot) },
		"wait": func(a *buckets.RESTBucketManager) (buckets.Lease, error) {
			return a.Acquire(background, message(1), bot)
		},
	} {
		subtest(t, name, func(t *testing.T) {
			h, a, _ := lending(t, 2)
			discover(t, a, message(1), limited("messages", 2, 1, time.Second))
			require.Equal(t, 1, h.lent())
			h.mu.Lock()
			h.term = 0 // without a call of changed, and without another loan
			for _, b := range h.buckets {
				b.until = 0
			}
			h.mu.Unlock()
			lease, err := come(a)
			require.NoError(t, err)
			assert.Equal(t, 0, h.lent())
			lease.Return()
		})
	}
}

func TestEvictedBucketReturnsItsLoan(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		h.term = time.Second
		a, b := pair(t, h, buckets.WithPollPeriod(time.Second), buckets.WithExpireAfter(3*time.Second))
		known(t, 2, a)
		discover(t, a, message(1), limited("messages", 2, 1, time.Second))
		require.Equal(t, 1, h.lent())
		wait(10 * time.Second)
		require.Equal(t, 0, h.lent())
		require.Zero(t, a.Stats().Buckets)
		for _, m := range []*buckets.RESTBucketManager{a, b} { // use the bucket again
			c := ask(m, message(1))
			answer(t, c, limited("messages", 2, 1, time.Second))
		}
		drained(t, a)
	})
}

// A request of an unknown route is charged to the buckets that it may belong to, in all managers.
func TestRequestsOfUnknownRoutesAreChargedWhereTheyMayBelong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*caller)
		free bool
	}{
		"elsewhere": {func(c *caller) { c.update(limited("list", 5, 4, time.Second)) }, true},
		"there":     {func(c *caller) { c.update(limited("messages", 2, 1, time.Second)) }, false},
		"not sent":  {func(c *caller) { c.lease.Return() }, true},
		"lost":      {func(c *caller) { c.lease.Release() }, false},
	} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			a, b := pair(t, h)
			known(t, 2, a, b)
			probe := ask(a, list(1))
			all := asks(b, message(1), 2)
			require.Equal(t, 1, granted(t, all))
			c.end(probe)
			synctest.Wait()
			assert.Equal(t, c.free, all[1].granted())
			all[0].update(limited("messages", 2, 0, time.Second))
			wait(1100 * time.Millisecond)
			require.True(t, all[1].granted())
			all[1].lease.Release()
			h.mu.Lock()
			for key, b := range h.buckets {
				for _, u := range b.users {
					assert.Empty(t, u.flying, "%+v", key)
				}
			}
			h.mu.Unlock()
		})
	}
}

func TestUpdateRateLimitsReachesAllManagers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		a, b := pair(t, h)
		known(t, 2, a, b)
		a.UpdateRateLimits(message(1), bot, inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 2, 0, time.Minute))
		synctest.Wait()
		_, err := b.TryAcquire(message(1), bot)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.InDelta(t, 60, tooLong.Wait.Seconds(), 1)
	})
}

// A request that may belong to a bucket stays charged when the bucket is lent, and when the loan is returned.
func TestLoanCountsRequestsOfUnknownRoutes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h, a, b := lending(t, 3)
		probe := ask(a, list(1))
		all := asks(a, message(1), 3)
		require.Equal(t, 1, h.lent())
		assert.Equal(t, 2, granted(t, all), "the third permit may be used by the other route")
		all[2].cancel()
		wait(0)
		for _, c := range all[:2] {
			c.update(limited("messages", 3, 1, time.Second))
		}
		wait(2 * time.Second) // the window is over
		all = asks(b, message(1), 3)
		require.Equal(t, 1, h.count(func(h *hub) int { return h.returned }))
		assert.Equal(t, 2, granted(t, all), "the request is still in flight")
		for _, c := range all[:2] {
			c.update(limited("messages", 3, 1, time.Second))
		}
		all[2].cancel()
		wait(0)
		probe.update(limited("list", 5, 4, time.Second))
		drained(t, a)
		drained(t, b)
	})
}

// A bucket is not evicted while a request is in flight that may belong to it.
func TestBucketToWhichARequestMayBelongIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		h := newHub(t)
		m := started(t, buckets.WithShared(h))
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		probe := ask(m, list(1))
		wait(10 * time.Minute)
		snapshot(t, m, "messages")
		probe.update(limited("messages", 5, 4, time.Second))
		wait(10 * time.Minute)
		require.Empty(t, slices.Collect(m.Buckets()))
	})
}

// LiftHolds does not lift the holds of shared buckets, also of a bucket that is lent to this process.
func TestLiftHoldsKeepsSharedHolds(t *testing.T) {
	t.Parallel()
	for _, term := range []time.Duration{0, time.Hour} {
		for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
			subtest(t, term.String()+" "+class.String(), func(t *testing.T) {
				h := newHub(t)
				h.term = term
				m := started(t, buckets.WithShared(h), buckets.WithMaxRateLimit(time.Hour))
				discover(t, m, message(1), roomy)
				c := ask(m, message(1))
				wait(time.Second)
				answer(t, c, inBucket(refused(class, time.Minute), "messages", 100, 90, time.Second))
				wait(0)
				m.LiftHolds()
				c = ask(m, message(1))
				wait(time.Second)
				assert.False(t, c.granted(), "the hold was lifted")
				for !c.granted() {
					wait(time.Second)
				}
				c.update(roomy)
			})
		}
	}
}

package buckets_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

func overBudget(t *testing.T, c *caller) *ratelimits.BudgetError {
	t.Helper()
	var err *ratelimits.BudgetError
	require.ErrorAs(t, c.failed(), &err)
	return err
}

func TestInvalidRequestsAreRefusedBeforeTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(10, time.Minute, 4))
		discover(t, m, message(1), plain(200))
		for _, r := range []ratelimits.Response{
			plain(401), plain(403), refused(ratelimits.ClassEdge, time.Second),
			refused(ratelimits.ClassShared, time.Second), plain(404), plain(500),
		} {
			c := ask(m, message(1))
			wait(5 * time.Second) // until all holds have ended
			answer(t, c, r)
		}
		wait(5 * time.Second)
		assert.Equal(t, 3, m.Stats().Invalid)
		assert.Equal(t, 6, m.Stats().InvalidLimit)
		inFlight := asks(m, message(1), 3)
		err := overBudget(t, ask(m, list(7)))
		assert.Equal(t, 3, err.Used)
		assert.Equal(t, 3, err.InFlight)
		assert.Equal(t, 6, err.Limit)
		assert.Positive(t, err.RetryAfter)
		assert.Equal(t, "GET /channels/{channel_id}/messages", err.Route)
		assert.EqualValues(t, 1, m.Stats().OverBudget)

		inFlight[0].update(plain(200))
		other := ask(m, list(7))
		require.True(t, other.granted(), "one of the requests in flight was valid, so there is room again")
		other.update(plain(403))
		inFlight[1].update(plain(403))
		inFlight[2].update(plain(403))
		overBudget(t, ask(m, message(1)))

		wait(62 * time.Second)
		assert.Zero(t, m.Stats().Invalid)
		assert.True(t, ask(m, message(1)).granted(), "after a period, the count is zero again")
	})
}

func TestMarginBelowZeroIsNone(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 10, started(t, buckets.WithInvalidBudget(10, time.Hour, -5)).Stats().InvalidLimit)
}

func TestWaitersAreRefusedWhenTheBudgetIsUsedUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(2, time.Hour, 0))
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 20)
		probe.update(inBucket(plain(403), "messages", 5, 4, time.Second))
		require.True(t, waiting[0].granted())
		for _, c := range waiting[1:] {
			overBudget(t, c)
		}
		waiting[0].lease.Return()
		assert.True(t, ask(m, message(1)).granted(), "a returned lease does not count")
	})
}

func TestWithoutABudgetInvalidRequestsAreNotCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(0, time.Hour, 0))
		for range 20_000 {
			sendNow(t, m, callback(1), bot, plain(403))
		}
		assert.Zero(t, m.Stats().Invalid)
	})
}

// Together, the requests in flight must not exceed the budget, whether they are in one bucket or in many.
func TestManyInOneBucketLeaveNoMoreForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const limit = 2000
		m := started(t, buckets.WithInvalidBudget(limit, time.Minute, 0), buckets.WithGlobalLimit(0))
		discover(t, m, message(1), ratelimits.Response{Status: 200}) // the route has no limit
		var leases []buckets.Lease
		for range 2 * limit {
			if lease, err := m.TryAcquire(message(1), bot); err == nil {
				leases = append(leases, lease)
			}
		}
		assert.Len(t, leases, limit, "leases in one bucket")
		for channel := range 2 * limit {
			if lease, err := m.TryAcquire(message(2+channel), bot); err == nil {
				leases = append(leases, lease)
			}
		}
		assert.Equal(t, limit, m.Stats().InFlight, "leases in all buckets")
		for _, lease := range leases {
			lease.Update(ratelimits.Response{Status: 401})
		}
		assert.Equal(t, limit, m.Stats().Invalid)
	})
}

func TestEachMarkOfTheBudgetIsToldOnceEachTimeThatItIsPassed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var told []float64
		m := started(t, buckets.WithInvalidBudget(20, time.Minute, 0), buckets.WithLogger(nil),
			buckets.WithHooks(buckets.Hooks{BudgetUsed: func(_ context.Context, u buckets.BudgetUsed) {
				told = append(told, u.Fraction)
			}}))
		for range 2 {
			told = nil
			for range 20 {
				discover(t, m, callback(1), plain(403))
			}
			assert.Equal(t, []float64{0.5, 0.75, 0.9}, told)
			wait(2 * time.Minute)
		}
	})
}

// spend sends requests, each of which gets a 403, until the budget refuses one or 1000 have been sent. It returns how
// many were sent, and the budget's error.
func spend(
	t *testing.T, m *buckets.RESTBucketManager, request func(i int) buckets.Request,
) (sent int, refused *ratelimits.BudgetError) {
	t.Helper()
	for ; sent < 1000; sent++ {
		r := request(sent)
		lease, err := m.AcquireRequest(t.Context(), &r)
		if err != nil {
			require.ErrorAs(t, err, &refused)
			return sent, refused
		}
		lease.Update(plain(403))
	}
	return sent, nil
}

// calledBack returns a function that creates requests to the route of an interaction callback, with the given
// authorization. Such requests do not wait for each other.
func calledBack(authorization string) func(int) buckets.Request {
	return func(int) buckets.Request { return buckets.Request{Route: callback(1), Authorization: authorization} }
}

func serve(t *testing.T, m *buckets.RESTBucketManager, authorization string) {
	t.Helper()
	r := calledBack(authorization)(0)
	lease, err := m.AcquireRequest(t.Context(), &r)
	require.NoError(t, err, "%s must be served", authorization)
	lease.Update(plain(200))
}

func TestACredentialLeavesAsMuchOfTheBudgetToOthersAsItUses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		serve(t, m, "Bot good")
		serve(t, m, "Bot bad")
		serve(t, m, "Bot bad")
		sent, refused := spend(t, m, calledBack("Bot bad"))
		assert.Equal(t, 50, sent)
		assert.Equal(t, 50, refused.Used)
		assert.Equal(t, 50, refused.Limit)
		assert.Positive(t, refused.RetryAfter)
		sent, _ = spend(t, m, calledBack("")) // requests without a credential share one account
		assert.Equal(t, 25, sent)
		sent, _ = spend(t, m, calledBack("Bot worse"))
		assert.Equal(t, 13, sent, "half of the 25 that are left")
		serve(t, m, "Bot good")
		wait(refused.RetryAfter + time.Second)
		serve(t, m, "Bot bad")
	})
}

func TestACredentialHasTheWholeBudgetWhileNoOtherIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		serve(t, m, "Bot bad")
		serve(t, m, "Bot good")
		wait(10 * time.Minute)
		sent, refused := spend(t, m, calledBack("Bot bad"))
		assert.Equal(t, 100, sent)
		assert.Equal(t, 100, refused.Limit)
	})
}

func TestRequestsInFlightCountForTheShareOfTheirCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		serve(t, m, "Bot good")
		var leases []buckets.Lease
		for range 100 {
			r := calledBack("")(0)
			lease, err := m.AcquireRequest(t.Context(), &r)
			if err != nil {
				break
			}
			leases = append(leases, lease)
		}
		assert.Len(t, leases, 50)
		leases[0].Return()
		leases[1].Update(plain(200))
		serve(t, m, "")
		serve(t, m, "Bot good")
		for _, lease := range leases[2:] {
			lease.Release()
		}
		sent, _ := spend(t, m, calledBack(""))
		assert.Equal(t, 50, sent)
	})
}

// All unproven credentials together must have one share of the budget. Otherwise a caller could invent credentials and
// get a share for each of them.
func TestUnprovenCredentialsHaveOneShareTogether(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		sent, _ := spend(t, m, func(i int) buckets.Request {
			r := calledBack("Bot " + strconv.Itoa(i))(0)
			if i%2 == 0 {
				r.Authorization = ""
			}
			r.Unproven = true
			return r
		})
		assert.Equal(t, 50, sent, "half of the budget is left for proven credentials, although none has been served yet")
		serve(t, m, "Bot good")
		serve(t, m, "")
	})
}

func TestTheBudgetCanBeLifted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		m.LiftBudget() // nothing has been used yet
		for range 2 {
			serve(t, m, "Bot good")
			spend(t, m, calledBack("Bot bad"))
			spend(t, m, calledBack(""))
			spend(t, m, func(i int) buckets.Request {
				return buckets.Request{Route: callback(1), Unproven: true}
			})
			m.LiftBudget()
			assert.Zero(t, m.Stats().Invalid)
		}
		sent, _ := spend(t, m, calledBack("Bot bad"))
		assert.Equal(t, 50, sent)
		sent, _ = spend(t, m, func(i int) buckets.Request {
			return buckets.Request{Route: callback(1), Unproven: true}
		})
		assert.Equal(t, 25, sent)
	})
}

package buckets_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// spend sends requests that are answered with a 403 until the budget refuses one, and returns how many were sent.
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

// calledBack returns the request of a callback, of which no two wait for each other, with an Authorization.
func calledBack(authorization string) func(int) buckets.Request {
	return func(int) buckets.Request { return buckets.Request{Route: callback(1), Authorization: authorization} }
}

func serve(t *testing.T, m *buckets.RESTBucketManager, authorization string) {
	t.Helper()
	r := calledBack(authorization)(0)
	lease, err := m.AcquireRequest(t.Context(), &r)
	require.NoError(t, err, "%s is not served", authorization)
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
		sent, _ = spend(t, m, calledBack("")) // all without a credential are one
		assert.Equal(t, 25, sent)
		sent, _ = spend(t, m, calledBack("Bot worse"))
		assert.Equal(t, 13, sent, "half of 25")
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

// Whoever invents credentials does not get a share for each.
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
		assert.Equal(t, 50, sent, "others have worked, though not in this process")
		serve(t, m, "Bot good")
		serve(t, m, "")
	})
}

func TestTheBudgetCanBeLifted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(100, 10*time.Minute, 0))
		m.LiftBudget() // of nothing
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

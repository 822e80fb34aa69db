package buckets

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A state from elsewhere may name times that no manager would. None of them holds anything for longer than a day.
func TestNoStateHoldsAnythingForLongerThanADay(t *testing.T) {
	t.Parallel()
	const far = 42 * time.Hour
	message, err := routes.CreateMessage.Compile("1")
	require.NoError(t, err)
	other, err := routes.CreateMessage.Compile("2")
	require.NoError(t, err)
	list, err := routes.ListMessages.Compile("1")
	require.NoError(t, err)
	limited := ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 1, ResetAfter: 23 * time.Hour}
	user := ratelimits.Response{
		Status: 429, Class: ratelimits.ClassUser, Bucket: "h", HasRetryAfter: true, RetryAfter: 23 * time.Hour,
	}
	options := []Option{
		WithLogger(nil), WithMaxRateLimit(100 * time.Hour), WithLimit(ForRoute(routes.ListMessages), 1, 24*time.Hour),
	}
	shift := func(m *RESTBucketManager) {
		for _, b := range m.discord.buckets {
			b.window.Shift(far-23*time.Hour, far-23*time.Hour)
		}
	}
	for name, c := range map[string]struct {
		answers []ratelimits.Response
		prepare func(m *RESTBucketManager)
	}{
		"charge":                  {answers: []ratelimits.Response{limited}, prepare: shift},
		"hold":                    {answers: []ratelimits.Response{user}, prepare: shift},
		"charge and hold":         {answers: []ratelimits.Response{limited, user}, prepare: shift},
		"charge without a period": {answers: []ratelimits.Response{limited, {Status: 200}}, prepare: shift},
		"throttle":                {prepare: func(m *RESTBucketManager) { m.throttled.Extend(m.now(), far) }},
		"resource": {answers: []ratelimits.Response{limited}, prepare: func(m *RESTBucketManager) {
			for _, b := range m.discord.buckets {
				m.discord.holds[resource{b.group.groupKey, m.majorOf(&other)}] = m.now() + far
				m.discord.holds[resource{b.group.groupKey, noMajor}] = m.now() + far
			}
		}},
		"declared": {prepare: func(m *RESTBucketManager) {
			for _, a := range m.discord.accounts {
				for _, d := range a.declared { // of the route below
					d.window.Shift(far-24*time.Hour, far-24*time.Hour)
				}
			}
		}},
	} {
		for _, exact := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					m := NewRESTBucketManager(options...)
					require.NoError(t, m.Start())
					lease, err := m.Acquire(context.Background(), list, "Bot one")
					require.NoError(t, err)
					lease.Update(ratelimits.Response{Status: 200})
					for _, r := range c.answers {
						lease, err := m.Acquire(context.Background(), message, "Bot one")
						require.NoError(t, err)
						lease.Update(r)
					}
					c.prepare(m)
					var state bytes.Buffer
					require.NoError(t, m.WriteState(&state))
					if exact {
						require.NoError(t, m.Close())
						state.Reset()
						require.NoError(t, m.WriteState(&state))
					} else {
						defer m.Close()
					}
					next := NewRESTBucketManager(options...)
					require.NoError(t, next.Start())
					defer next.Close()
					require.NoError(t, next.RestoreState(&state))
					start := time.Now()
					for _, r := range []Request{
						{Route: message, Authorization: "Bot one"}, {Route: other, Authorization: "Bot one"},
						{Route: list, Authorization: "Bot one"}, {Route: list, Authorization: "Bot two"},
					} {
						lease, err := next.AcquireRequest(context.Background(), &r)
						require.NoError(t, err)
						lease.Update(ratelimits.Response{Status: 200})
						assert.LessOrEqual(t, time.Since(start), ratelimits.LongestTrust+time.Minute)
					}
				})
			})
		}
	}
}

// Invalid responses that a state places in the future count for one period from now on.
func TestNoStateUsesUpTheBudgetForLongerThanItsPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLogger(nil), WithInvalidBudget(1, time.Hour, 0))
		require.NoError(t, m.Start())
		defer m.Close()
		invalid := map[time.Duration]int{m.now() + 42*time.Hour: 1}
		require.NoError(t, m.restore(&savedState{Servers: []savedServer{{Invalid: invalid}}}, m.key.Load(), 0))
		message, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		_, err = m.TryAcquire(message, "Bot one")
		require.Error(t, err)
		time.Sleep(time.Hour + 2*time.Minute)
		lease, err := m.TryAcquire(message, "Bot one")
		require.NoError(t, err)
		lease.Return()
	})
}

package buckets_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// as does the same as call, with a request that has the given authorization.
func as(m *buckets.RESTBucketManager, authorization string, route routes.CompiledRoute) *caller {
	return call(background, m, buckets.Request{Route: route, Authorization: authorization})
}

func TestThrottleHoldsAllAuthentications(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		holds := 0
		m := started(t, buckets.WithHooks(buckets.Hooks{Held: func(context.Context, buckets.Held) { holds++ }}))
		discover(t, m, message(1), roomy)
		m.Throttle(0)
		assert.Zero(t, holds)
		m.Throttle(5 * time.Second)
		m.Throttle(time.Second)
		m.Throttle(0)
		m.Throttle(-time.Second)
		assert.Equal(t, 1, holds, "only the first Throttle begins a hold")
		held := []*caller{ask(m, message(1)), as(m, "Bot two", message(1)), as(m, "", message(1))}
		passing := ask(m, callback(1))
		assert.True(t, passing.granted(), "a route exempt from the global limit is exempt from its hold")
		passing.update(roomy)
		wait(4999 * time.Millisecond)
		for _, c := range held {
			assert.False(t, c.granted(), "the hold keeps its full length and also holds new credentials")
		}
		wait(time.Millisecond)
		for _, c := range held {
			assert.True(t, c.granted())
			c.update(roomy)
		}
		assert.True(t, as(m, "Bot three", message(1)).granted(), "the hold is over")
	})
}

func TestAfterAThrottleTheyLeaveInOrderAndPaced(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		subtest(t, fmt.Sprintf("bucket known: %v", known), func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(5))
			if known {
				discover(t, m, message(1), plain(200))
			}
			m.Throttle(10 * time.Second)
			all := asks(m, message(1), 12)
			wait(10*time.Second - time.Millisecond)
			require.Zero(t, granted(t, all))
			for n := 0; n < len(all); wait(time.Millisecond) {
				for until := granted(t, all); n < until; n++ {
					all[n].update(plain(200))
				}
			}
			for i := range all[:7] {
				assert.GreaterOrEqual(t, all[i+5].at.Sub(all[i].at), time.Second)
			}
		})
	}
}

// A route is exempt from the global limit, but a request to it gets a global 429. This request must wait for the 429's
// Retry-After before it is sent again.
func TestExemptRouteRefusedGloballyWaits(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, followUp(1), roomy)
		c := ask(m, followUp(1))
		c.update(refused(ratelimits.ClassGlobal, 3*time.Second))
		c.again(m)
		assert.False(t, c.granted())
		wait(3*time.Second + 2*time.Millisecond)
		assert.True(t, c.granted())
	})
}

func TestExemptRequestsCountForTheGlobalLimitWithACredentialOnly(t *testing.T) {
	t.Parallel()
	for authorization, passes := range map[string]bool{bot: false, "": true} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(3))
			for n := range 3 {
				as(m, authorization, callback(n)).update(plain(204))
			}
			c := as(m, authorization, message(1))
			assert.Equal(t, passes, c.granted(), "credential %q", authorization)
			wait(time.Second)
			assert.True(t, c.granted())
		})
	}
}

// A shared 429 is about a resource (here a channel), so the 429 must hold all credentials' requests to that resource.
func TestSharedRefusalHoldsTheResourceForAllCredentials(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{"Bot one", "Bot two"} {
			for _, channel := range []int{1, 2} {
				as(m, credential, message(channel)).update(limited("messages", 5, 4, time.Second))
			}
		}
		as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, 20*time.Second),
			"messages", 5, 3, time.Second))
		two := buckets.Request{Route: message(1), Authorization: "Bot two"}
		impatient := call(buckets.ContextWithMaxWait(background, time.Second), m, two)
		assert.Equal(t, ratelimits.ClassShared, tooLong(t, impatient).Class)
		held := as(m, "Bot two", message(1))
		assert.True(t, as(m, "Bot two", message(2)).granted(), "another channel is not held")
		wait(19 * time.Second)
		assert.False(t, held.done())
		wait(2 * time.Second)
		assert.True(t, held.granted())
	})
}

// The success of an interaction's request must not restart the backoff of global 429s, because global 429s do not hold
// such requests. The success of a request that was sent before the 429s must not restart the backoff either.
func TestOnlyWhatAGlobalRefusalHoldsEndsItsRow(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"no limit": 0, "50": 50} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, buckets.WithGlobalLimit(limit), buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, message(1), roomy)
			discover(t, m, followUp(1), roomy)
			early := asks(m, message(1), 30)
			refusals, c := 0, ask(m, message(1))
			for start := time.Now(); time.Since(start) < time.Minute; wait(100 * time.Millisecond) {
				discover(t, m, followUp(1), roomy)
				if refusals%2 == 1 && len(early) > 0 {
					early[0].update(roomy)
					early = early[1:]
				}
				if c.granted() {
					refusals++
					c.update(refused(ratelimits.ClassGlobal, 500*time.Millisecond))
					c.again(m)
				}
			}
			assert.LessOrEqual(t, refusals, 12)
		})
	}
}

func TestThrottleHoldsCredentialsThatComeLaterUntilItIsLifted(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		m.Throttle(time.Minute)
		_, err := m.TryAcquire(message(1), "Bot new")
		require.ErrorAs(t, err, new(*ratelimits.TooLongError))
		assert.False(t, at(m, "example.com", bot).done(), "a server that is first used during the hold is held, too")
		m.LiftHolds()
		lease, err := m.TryAcquire(message(1), "Bot newer")
		require.NoError(t, err)
		lease.Return()
	})
}

// If the path of a route contains a token, Discord counts the requests with that token together, whether they have the
// bot's Authorization or not.

func webhookPost(token string) routes.CompiledRoute {
	return compile(routes.ExecuteWebhook, "77", token)
}

func TestATokenHasOneBucketWithAndWithoutACredential(t *testing.T) {
	t.Parallel()
	for name, route := range map[string]routes.CompiledRoute{
		"webhook": webhookPost("token"), "interaction": followUp(1),
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			as(m, "", route).update(limited("posts", 3, 2, time.Minute))
			one, two := as(m, bot, route), as(m, "Bot two", route)
			require.True(t, one.granted() && two.granted())
			third := as(m, "", route)
			require.False(t, third.granted(), "all three permits are used")
			b := snapshot(t, m, "posts")
			assert.Equal(t, 2, b.InFlight)
			assert.Equal(t, "-", b.Authentication)
			one.lease.Return()
			synctest.Wait()
			assert.True(t, third.granted())
			third.update(limited("posts", 3, 1, time.Minute))
			two.update(limited("posts", 3, 0, time.Minute))
			assert.False(t, as(m, bot, route).granted())
		})
	}
}

func TestATokenIsDiscoveredOnceForAllCredentials(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		first, second := as(m, bot, webhookPost("token")), as(m, "", webhookPost("token"))
		require.True(t, first.granted())
		require.False(t, second.granted())
		first.update(limited("posts", 1, 0, time.Second))
		require.False(t, second.granted())
		wait(1100 * time.Millisecond)
		require.True(t, second.granted())
	})
}

func TestARequestWithATokenCountsForTheGlobalLimitOfItsCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(2))
		for range 2 {
			as(m, bot, webhookPost("token")).update(limited("posts", 50, 40, time.Minute))
		}
		held := as(m, bot, webhookPost("token"))
		require.False(t, held.granted(), "the bot's global limit is used up")
		_, because := predict(t, m, request(webhookPost("token")))
		assert.Equal(t, buckets.WaitsForGlobal, because)
		anonymous, other := as(m, "", webhookPost("token")), as(m, "Bot two", webhookPost("token"))
		require.True(t, anonymous.granted(),
			"requests without a credential have a global limit of their own, so they do not wait for the bot's limit")
		require.True(t, other.granted())
		require.False(t, as(m, bot, message(1)).granted())
		wait(1100 * time.Millisecond)
		require.True(t, held.granted())
	})
}

// A global 429 is about one credential. In a token's bucket, a global 429 must hold only the requests of that
// credential.
func TestAGlobalRefusalOfARequestWithATokenHoldsItsCredential(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(5*time.Second))
		as(m, "", webhookPost("token")).update(limited("posts", 50, 40, time.Minute))
		request, other := as(m, bot, webhookPost("token")), as(m, bot, message(1))
		require.True(t, request.granted() && other.granted())
		request.update(refused(ratelimits.ClassGlobal, 3*time.Second))
		waits := as(m, bot, webhookPost("token"))
		require.False(t, waits.granted())
		require.False(t, as(m, bot, list(1)).granted())
		require.True(t, as(m, "", webhookPost("token")).granted())
		other.update(refused(ratelimits.ClassGlobal, 10*time.Second))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, waits.failed(), &tooLong, "the request fails when the hold exceeds the request's maximum wait")
		assert.True(t, tooLong.Global)
	})
}

// In a token's bucket, the requests of each credential have a queue of their own. Nevertheless, the requests of all
// credentials together must leave in the order of their arrival.
func TestCredentialsThatWaitForATokenLeaveInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(50))
		probe := as(m, bot, webhookPost("token"))
		var all []*caller
		for i := range 9 {
			all = append(all, as(m, []string{"", bot, "Bot two"}[i%3], webhookPost("token")))
		}
		require.Equal(t, 0, granted(t, all))
		probe.update(limited("posts", 5, 4, time.Minute))
		assert.Equal(t, 4, granted(t, all[:4]))
		assert.Equal(t, 0, granted(t, all[4:]))
		all[5].cancel()
		wait(61 * time.Second)
		updateAll(all[:4], limited("posts", 5, 0, 30*time.Second))
		wait(31 * time.Second)
		assert.Equal(t, 4, granted(t, []*caller{all[4], all[6], all[7], all[8]}))
	})
}

func TestDeclaredLimitsOfACredentialApplyToItsRequestsWithAToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForRoute(routes.ExecuteWebhook), 1, time.Minute))
		as(m, bot, webhookPost("token")).update(roomy)
		assert.False(t, as(m, bot, webhookPost("token")).granted())
		assert.True(t, as(m, "", webhookPost("token")).granted())
		require.Len(t, m.Status(10).Declared, 1)
		assert.NotEqual(t, "-", m.Status(10).Declared[0].Authentication)
	})
}

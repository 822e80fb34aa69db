package buckets_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Discord counts requests to a route with a token in its path by the token, whether they have the bot's Authorization
// or not.

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
		_, because := predict(t, m, &buckets.Request{Route: webhookPost("token"), Authorization: bot})
		assert.Equal(t, buckets.WaitsForGlobal, because)
		anonymous, other := as(m, "", webhookPost("token")), as(m, "Bot two", webhookPost("token"))
		require.True(t, anonymous.granted(),
			"requests without a credential have their own global limit and do not wait behind the bot's")
		require.True(t, other.granted())
		require.False(t, as(m, bot, message(1)).granted())
		wait(1100 * time.Millisecond)
		require.True(t, held.granted())
	})
}

// A global 429 belongs to the credential: it must hold the credential's requests to the token's bucket, and no others
// there.
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
		anonymous := as(m, "", webhookPost("token"))
		require.True(t, anonymous.granted())
		other.update(refused(ratelimits.ClassGlobal, 10*time.Second))
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, waits.failed(), &tooLong, "the request fails as soon as the hold exceeds its maximum wait")
		assert.True(t, tooLong.Global)
	})
}

// In a token's bucket the requests of each credential have a queue of their own. They must still leave in the order of
// their arrival.
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
		anonymous := as(m, "", webhookPost("token"))
		assert.True(t, anonymous.granted())
		require.Len(t, m.Status(10).Declared, 1)
		assert.NotEqual(t, "-", m.Status(10).Declared[0].Authentication)
	})
}

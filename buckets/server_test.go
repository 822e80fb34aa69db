package buckets_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// at sends a message to channel 1 of a server.
func at(m *buckets.RESTBucketManager, server, authorization string) *caller {
	return call(background, m, buckets.Request{Route: message(1), Authorization: authorization, Server: server})
}

// The responses of one server must not affect another server, whether the requests have the same credential or none.
func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer ratelimits.Response
	}{
		{"used up", limited("messages", 1, 0, time.Hour)},
		{"hold of the bucket", usedUp("messages", 1, time.Hour)},
		{"hold of the resource", inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 100, 80, time.Hour)},
		{"hidden limit", inBucket(refused(ratelimits.ClassSubLimit, time.Hour), "messages", 100, 80, time.Hour)},
		{"global", refused(ratelimits.ClassGlobal, time.Hour)},
		{"edge", refused(ratelimits.ClassEdge, time.Hour)},
	} {
		for _, servers := range [][2]string{{"", "example.com"}, {"example.com", ""}, {"one.example", "two.example"}} {
			for _, authorization := range []string{bot, ""} {
				subtest(t, c.name+" at "+servers[0]+" "+authorization, func(t *testing.T) {
					m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
					for _, server := range servers {
						at(m, server, authorization).update(roomy)
					}
					at(m, servers[0], authorization).update(c.answer)
					same, other := at(m, servers[0], authorization), at(m, servers[1], authorization)
					assert.False(t, same.granted())
					answer(t, other, roomy)
					same.cancel()
					wait(0)
					assert.Equal(t, c.answer.Class == ratelimits.ClassEdge, m.EdgeWait(servers[0]) > 0)
					assert.Zero(t, m.EdgeWait(servers[1]))
					assert.Zero(t, m.EdgeWait("nowhere.example"))
				})
			}
		}
	}
}

// Invalid responses of another server must not count against Discord's budget.
func TestServersHaveBudgetsOfTheirOwn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(10, time.Hour, 0))
		at(m, "", bot).update(roomy)
		at(m, "one.example", bot).update(roomy)
		for range 10 {
			at(m, "one.example", bot).update(plain(401))
		}
		var over *ratelimits.BudgetError
		require.ErrorAs(t, at(m, "one.example", bot).failed(), &over)
		assert.Zero(t, m.Stats().Invalid)
		for range 10 {
			answer(t, at(m, "", bot), plain(403))
		}
		assert.Equal(t, 10, m.Stats().Invalid)
		require.ErrorAs(t, at(m, "", bot).failed(), &over)
	})
}

func TestSnapshotsNameTheServer(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		at(m, "", "").update(limited("discord", 5, 4, time.Minute))
		at(m, "one.example", "").update(limited("one", 5, 4, time.Minute))
		assert.Empty(t, snapshot(t, m, "discord").Server)
		one := snapshot(t, m, "one")
		assert.Equal(t, "one.example", one.Server)
		assert.Equal(t, "-", one.Authentication)
	})
}

// A client that limits every host may meet many servers, for example by redirects. Servers that are not used must be
// forgotten, but not their holds.
func TestServersThatNobodyUsesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour))
		at(m, "one.example", "").update(roomy)
		at(m, "one.example", "").update(refused(ratelimits.ClassEdge, 23*time.Hour))
		at(m, "two.example", "").update(roomy)
		wait(4 * time.Hour)
		assert.Zero(t, m.Stats().Authentications)
		assert.NotZero(t, m.EdgeWait("one.example"))
		c := at(m, "one.example", "")
		assert.False(t, c.done())
		wait(20 * time.Hour)
		answer(t, c, roomy)
		require.NoError(t, m.Close())
		require.NoError(t, m.Start())
		assert.Zero(t, m.EdgeWait("one.example"))
	})
}

// Unproven requests use up their share of a server's budget. The server's credentials are forgotten, but the used-up
// share must not be forgotten.
func TestServerWithInvalidResponsesIsNotForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(10, 24*time.Hour, 0))
		unproven := func(int) buckets.Request {
			return buckets.Request{Route: callback(1), Authorization: bot, Server: "one.example", Unproven: true}
		}
		sent, _ := spend(t, m, unproven)
		assert.Equal(t, 5, sent)
		wait(4 * time.Hour)
		assert.Zero(t, m.Stats().Authentications)
		sent, _ = spend(t, m, unproven)
		assert.Zero(t, sent)
	})
}

// Requests in flight to another server must not count against Discord's budget.
func TestRequestsInFlightToAnotherServerLeaveTheBudgetAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithInvalidBudget(10, time.Hour, 0))
		at(m, "", bot).update(roomy)
		at(m, "slow.example", bot).update(roomy)
		for range 10 {
			require.True(t, at(m, "slow.example", bot).granted())
		}
		wait(time.Millisecond)
		c := at(m, "", bot)
		require.NoError(t, c.failed(), "nothing is in flight to Discord")
		require.True(t, c.granted())
	})
}

// everything sends one request of each kind: with two credentials, with none, and on routes exempt from the global
// limit.
func everything(m *buckets.RESTBucketManager) []*caller {
	return []*caller{
		ask(m, message(1)), ask(m, message(2)), as(m, "Bot two", message(1)), as(m, "", message(1)),
		ask(m, callback(1)), as(m, "", callback(2)), ask(m, followUp(1)),
	}
}

// familiar discovers the buckets of the routes that the function everything uses.
func familiar(t *testing.T, m *buckets.RESTBucketManager) {
	t.Helper()
	for _, authorization := range []string{bot, "Bot two", ""} {
		for _, route := range []routes.CompiledRoute{message(1), message(2), followUp(1)} {
			as(m, authorization, route).update(roomy)
		}
	}
}

func countGranted(all []*caller) (n int) {
	for _, c := range all {
		if c.granted() {
			n++
		}
	}
	return n
}

func TestEdgeRefusalStopsEverythingOfTheAddress(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		familiar(t, m)
		ask(m, message(1)).update(refused(ratelimits.ClassEdge, 30*time.Second))
		assert.Equal(t, 30*time.Second+time.Millisecond, m.EdgeWait(""))
		held := everything(m)
		wait(30*time.Second - time.Millisecond)
		require.Zero(t, countGranted(held), "requests of interactions are held, too")

		wait(2 * time.Millisecond)
		require.Equal(t, 1, countGranted(held), "one request goes first")
		assert.Zero(t, m.EdgeWait(""))
		wait(patience / 2)
		require.Equal(t, 1, countGranted(held), "the others wait for its response")
		for _, c := range held {
			if c.granted() {
				c.update(roomy)
				break
			}
		}
		assert.Equal(t, len(held), countGranted(held))
	})
}

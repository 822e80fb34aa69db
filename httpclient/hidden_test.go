package httpclient_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// channels is a simulated Discord where a channel's name may be changed twice in ten minutes, as no header tells.
func channels(quota discordsim.Quota) discordsim.Config {
	return discordsim.Config{Rules: []discordsim.Rule{{
		Method: http.MethodPatch, Path: "/channels/{id}", Quota: quota,
		SubLimits: []discordsim.SubLimit{{Fields: []string{"name"}, Quota: discordsim.Fixed(2, 10*time.Minute), Code: 20028}},
	}}}
}

func rename(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPatch, "/api/v10/channels/1", `{"name":"new"}`)
}

func newTopic(t *testing.T) *http.Request {
	t.Helper()
	return newRequest(t, http.MethodPatch, "/api/v10/channels/1", `{"topic":"new"}`)
}

func TestRenamesWaitForTheirHiddenLimitAndTopicsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(5, 5*time.Second)))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		start := time.Now()
		assertStatus(t, http.StatusOK, send(transport, rename(t)), send(transport, rename(t)))
		third := send(transport, rename(t)) // it meets the limit
		time.Sleep(20 * time.Millisecond)
		fourth := send(transport, rename(t)) // so it waits without asking
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, server.Report().Refused.SubLimit)
		fifth := send(transport, rename(t))
		for range 3 {
			topic := send(transport, newTopic(t))
			assertStatus(t, http.StatusOK, topic)
			assert.Less(t, topic.took, 6*time.Second, "longer than its own bucket wants")
		}

		assertStatus(t, http.StatusOK, third, fourth)
		assertTook(t, 10*time.Minute, time.Since(start))
		assertStatus(t, http.StatusOK, fifth)
		assertTook(t, 20*time.Minute, time.Since(start))
		report := server.Report()
		assert.Zero(t, report.Avoidable.Total())
		assert.LessOrEqual(t, report.Refused.Total(), 3)
	})
}

// Those that wait for the bucket when the hidden limit becomes known step aside for those behind them.
func TestQueuedRenamesStepAsideWhenTheirLimitBecomesKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(8, 5*time.Second)))
		used := discordsim.Request{Method: http.MethodPatch, Path: "/channels/1", Authorization: authorization, Fields: []string{"name"}}
		require.Equal(t, 2, server.Consume(used, 2))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		var renames, topics []*call
		for range 3 { // the first of them is the route's first request, so it goes alone
			renames = append(renames, send(transport, rename(t)))
			synctest.Wait()
		}
		for range 2 {
			topics = append(topics, send(transport, newTopic(t)))
		}
		assertStatus(t, http.StatusOK, topics...)
		for _, c := range topics {
			assert.Less(t, c.took, slack)
		}
		assert.Equal(t, 1, server.Report().Refused.SubLimit)
		assertStatus(t, http.StatusOK, renames...)
		for i, c := range renames {
			assert.InDelta(t, 600*(1+i/2), c.took.Seconds(), 0.1, "two in ten minutes")
		}
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}

func TestRenamesThatWouldWaitTooLongAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(10, time.Second)))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(10*time.Second))
		assertStatus(t, http.StatusOK, send(transport, rename(t)), send(transport, rename(t)))
		for range 2 {
			c := send(transport, rename(t)).wait()
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, c.err, &tooLong)
			assert.Equal(t, ratelimits.ClassSubLimit, tooLong.Class)
			assert.InDelta(t, 600, tooLong.Wait.Seconds(), 1)
		}
		assert.Equal(t, 1, server.Report().Refused.SubLimit, "the second was not sent in vain")
		assertStatus(t, http.StatusOK, send(transport, newTopic(t)))
		time.Sleep(10 * time.Minute)
		assertStatus(t, http.StatusOK, send(transport, rename(t)))
	})
}

// The refused rename took the bucket's last place, so nothing remains. But it is told to come back in ten minutes and
// the bucket is full again in five seconds: the limit that refused it is not the bucket's, and topics need not wait for
// it.
func TestARenameThatTakesTheLastPlaceDoesNotHoldTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, channels(discordsim.Fixed(3, 5*time.Second)))
		used := discordsim.Request{Method: http.MethodPatch, Path: "/channels/1", Authorization: authorization, Fields: []string{"name"}}
		require.Equal(t, 2, server.Consume(used, 2))
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		refused := send(transport, rename(t))
		time.Sleep(20 * time.Millisecond)
		topic := send(transport, newTopic(t))
		assertStatus(t, http.StatusOK, topic)
		assertTook(t, 5*time.Second-slack, topic.took)
		assertStatus(t, http.StatusOK, refused)
		assert.Zero(t, server.Report().Avoidable.Total())
	})
}

// The shared limit of a channel refuses while the bucket has room. When its hold is over the bucket is as good as
// before.
func TestASharedLimitLeavesTheBucketAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ok := answer(http.StatusOK, "{}", "X-RateLimit-Bucket: abc", "X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 96",
			"X-RateLimit-Reset-After: 60")
		shared := refusal429(`{"retry_after":40}`, "X-RateLimit-Bucket: abc", "X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 95",
			"X-RateLimit-Reset-After: 60", "X-RateLimit-Scope: shared", "Retry-After: 40")
		below := newScript(ok, shared, ok)
		below.takes = 10 * time.Millisecond
		transport := newTransport(t, below)
		assertStatus(t, http.StatusOK, send(transport, newMessage(t)))
		refused := send(transport, newMessage(t))
		time.Sleep(20 * time.Millisecond)
		var others []*call
		for range 20 {
			others = append(others, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, append(others, refused)...)
		assertTook(t, 40*time.Second, refused.took)
		for _, c := range others {
			assert.LessOrEqual(t, c.took, 40*time.Second+10*slack, "it waited for the bucket, which was not used up")
		}
	})
}

// A webhook's hidden limit per channel, counted for everybody together.
func TestASharedLimitIsMetOnceByTheWholeQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newDiscord(t, discordsim.Config{Default: &discordsim.Rule{
			Path: "**", Quota: discordsim.Fixed(5, 2*time.Second), Shared: &discordsim.SharedLimit{Quota: discordsim.Fixed(10, time.Minute)},
		}})
		transport := newTransport(t, server.RoundTripper(), httpclient.WithMaxRateLimit(time.Hour))
		start := time.Now()
		var calls []*call
		for range 15 {
			calls = append(calls, send(transport, newMessage(t)))
		}
		assertStatus(t, http.StatusOK, calls...)
		assert.InDelta(t, 60, time.Since(start).Seconds(), 5)
		report := server.Report()
		assert.Zero(t, report.Avoidable.Total())
		assert.NotZero(t, report.Refused.Shared)
		assert.LessOrEqual(t, report.Refused.Shared, 5, "more than what was in flight together")
	})
}

func TestDeletesOfYoungAndOldMessagesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(26 * 365 * 24 * time.Hour) // until there are snowflakes
		now := time.Now()
		variant := func(hash string) discordsim.Variant {
			return discordsim.Variant{Hash: hash, Quota: discordsim.Fixed(1, 10*time.Second)}
		}
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{
			Method: http.MethodDelete, Path: "/channels/{id}/messages/{id}",
			Vary: discordsim.ByMessageAge(discordsim.Ages{Young: variant("young"), Normal: variant("normal"), Old: variant("old")}),
		}}})
		transport := newTransport(t, server.RoundTripper())
		remove := func(age time.Duration) *call {
			id := strconv.FormatUint(discordsim.SnowflakeAt(now.Add(-age)), 10)
			return send(transport, newRequest(t, http.MethodDelete, messages+"/"+id, ""))
		}
		ages := []time.Duration{time.Second, time.Hour, 15 * 24 * time.Hour}
		for _, age := range ages {
			c := remove(age)
			assertStatus(t, http.StatusOK, c)
			assert.Less(t, c.took, slack, "a message that is %v old", age)
		}
		again := remove(ages[2])
		assertStatus(t, http.StatusOK, again)
		assertTook(t, 10*time.Second, again.took)
		assert.Zero(t, server.Report().Refused.Total())
	})
}

// A bucket that was collected is remembered by its hash: the first answer after it may say nothing of limits.
func TestACollectedBucketIsNotExceededWhenTheFirstAnswerSaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := discordsim.NoHeaders()
		silent.Nth = []int{5}
		server := newDiscord(t, discordsim.Config{Rules: []discordsim.Rule{{
			Path: "/channels/{id}/pins/{id}", Hash: "pins", Quota: discordsim.Fixed(1, 5*time.Second), Faults: []discordsim.Fault{silent},
		}}})
		transport := newTransport(t, server.RoundTripper())
		pin := func() *call { return send(transport, newRequest(t, http.MethodPut, "/api/v10/channels/1/pins/2", "")) }
		for range 4 {
			assertStatus(t, http.StatusOK, pin())
		}
		time.Sleep(2 * time.Minute)
		assert.Zero(t, transport.Manager().Stats().Buckets)
		var all []*call
		for range 20 {
			all = append(all, pin())
		}
		for _, c := range all {
			assertStatus(t, http.StatusOK, c)
		}
		assert.Zero(t, server.Report().Refused.Total())
	})
}

package buckets_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A request waits for the response to another request of the same manager. During an outage of the shared store, the
// snapshot must name this reason, not the outage.
func TestSnapshotNamesNoOutageWhileAProbeIsInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStore(t)
		m := started(t, buckets.WithShared(s))
		probe, waiting := ask(m, message(1)), ask(m, message(1))
		require.True(t, probe.granted() && !waiting.done())
		s.outage(true)
		assert.Equal(t, buckets.WaitsForProbe, snapshot(t, m, buckets.UnknownHash).WaitsFor)
		s.outage(false)
		probe.update(plain(200))
		require.True(t, waiting.granted())
	})
}

func TestSnapshotNamesAllRoutesOfABucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{bot, "Bot two"} {
			as(m, credential, message(1)).update(limited("h", 5, 4, time.Second))
		}
		discover(t, m, list(2), limited("h", 5, 4, time.Second))
		discover(t, m, compile(routes.UpdateChannel, "1"), limited("other", 5, 4, time.Second))
		const post, get = "POST /channels/{channel_id}/messages", "GET /channels/{channel_id}/messages"
		routes := func() map[string][]string {
			found := make(map[string][]string)
			for b := range m.Buckets() {
				if b.Hash != buckets.UnknownHash {
					found[b.Authentication+" "+b.Major+" "+b.Hash] = b.Routes
				}
			}
			return found
		}
		var ours, theirs string
		for b := range m.Buckets() {
			if b.Hash == "other" {
				ours = b.Authentication
			}
		}
		for b := range m.Buckets() {
			if b.Authentication != ours {
				theirs = b.Authentication
			}
		}
		assert.Equal(t, map[string][]string{
			ours + " 1 h": {get, post}, ours + " 2 h": {get, post}, ours + " 1 other": {"PATCH /channels/{channel_id}"},
			theirs + " 1 h": {post},
		}, routes())

		discover(t, m, list(2), limited("g", 5, 4, time.Second)) // now channel 2 has another hash
		assert.Equal(t, []string{post}, routes()[ours+" 2 h"])
		assert.Equal(t, []string{get}, routes()[ours+" 2 g"])
		assert.Equal(t, []string{get, post}, routes()[ours+" 1 h"])
	})
}

// A server may put a token from the path into a bucket hash. Snapshots and errors must not show this token.
func TestSnapshotShowsNoTokenThatTheServerPutIntoAHash(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 68) // as long as a webhook's token
	for name, c := range map[string]struct {
		route routes.CompiledRoute
		token string
	}{
		"interaction": {followUp(1), interactionToken(1)},
		"webhook":     {compile(routes.ExecuteWebhook, "5", "secret-token"), "secret-token"},
		"some other":  {message(1), long},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, c.route, limited("webhook:"+c.token, 5, 4, time.Minute))
			discover(t, m, list(3), limited("webhook:5", 5, 4, time.Minute))
			hashes := make(map[string]bool)
			for b := range m.Buckets() {
				hashes[b.Hash] = true
				assert.NotContains(t, fmt.Sprintf("%+v", b), c.token)
			}
			discover(t, m, c.route, limited("webhook:"+c.token, 5, 0, time.Minute))
			_, err := m.TryAcquire(c.route, bot)
			var tooLong *ratelimits.TooLongError
			require.ErrorAs(t, err, &tooLong)
			assert.NotContains(t, fmt.Sprintf("%+v", *tooLong), c.token)
			assert.Len(t, hashes, 3, "the hashes must still differ")
			assert.Contains(t, hashes, "webhook:5", "a hash without a token is shown")
		})
	}
}

// Even a hash that another process has discovered may contain a token. Snapshots must not show this token.
func TestSnapshotShowsNoTokenInAHashThatAnotherProcessFound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const token = "secret-token"
		a, b := pair(t, newStore(t))
		route := compile(routes.ExecuteWebhook, "5", token)
		probe, theirs := ask(a, route), ask(b, route)
		require.True(t, probe.granted())
		require.False(t, theirs.done())
		probe.update(limited("webhook:"+token, 5, 4, time.Minute))
		exchanged()
		answer(t, theirs, limited("webhook:"+token, 5, 3, time.Minute))
		for _, m := range []*buckets.RESTBucketManager{a, b} {
			for s := range m.Buckets() {
				assert.NotContains(t, fmt.Sprintf("%+v", s), token)
			}
		}
	})
}

// Two routes name the same hash, which contains a token, and have separate buckets. Snapshots must not show the token.
func TestSnapshotShowsNoTokenOfASeparateRoute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const token = "secret-token"
		m := started(t)
		for range 5 {
			discover(t, m, compile(routes.ExecuteWebhook, "5", token), limited("webhook:"+token, 5, 4, time.Second))
			discover(t, m, compile(routes.GetWebhookByToken, "5", token),
				limited("webhook:"+token, 50, 49, time.Second))
			wait(2 * time.Second)
		}
		n := 0
		for s := range m.Buckets() {
			if s.Hash != buckets.UnknownHash {
				n++
			}
			assert.NotContains(t, fmt.Sprintf("%+v", s), token)
		}
		require.Equal(t, 2, n)
	})
}

// twoSubLimits returns a manager with two sub-limits that are held: the first for the time hold, the second for a
// minute. The request that the first sub-limit refused waits again.
func twoSubLimits(t *testing.T, hold time.Duration) (m *buckets.RESTBucketManager, first, second *caller) {
	t.Helper()
	m = started(t, buckets.WithMaxRateLimit(time.Hour))
	discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
	first, second = call(background, m, change("1", "name")), call(background, m, change("1", "topic"))
	first.update(inBucket(refused(ratelimits.ClassSubLimit, hold), "channel", 100, 80, 15*time.Second))
	second.update(inBucket(refused(ratelimits.ClassSubLimit, time.Minute), "channel", 100, 80, 15*time.Second))
	first.again(m)
	return m, first, second
}

// Two sub-limits are held. The snapshot must show the shortest wait among the sub-limits for which requests wait.
func TestSnapshotShowsTheWaitOfASubLimitThatIsWaitedFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m, first, second := twoSubLimits(t, 10*time.Minute)
		require.False(t, first.done())
		s := snapshot(t, m, "channel")
		assert.Equal(t, buckets.WaitsForSubLimit, s.WaitsFor)
		assert.InDelta(t, 10*time.Minute, s.WaitAfter, float64(time.Second))
		second.again(m)
		assert.InDelta(t, time.Minute, snapshot(t, m, "channel").WaitAfter, float64(time.Second),
			"the wait of the request that leaves first")
	})
}

// A request waits for the outcome of another request under the same sub-limit, so its wait is not known. The snapshot
// must show a wait only if the wait of a request under another sub-limit is known.
func TestSnapshotShowsNoWaitForASubLimitWithOneInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m, first, second := twoSubLimits(t, time.Second)
		next := call(background, m, change("1", "name"))
		wait(2 * time.Second)
		require.True(t, first.granted())
		require.False(t, next.done())
		s := snapshot(t, m, "channel")
		assert.Equal(t, buckets.WaitsForSubLimit, s.WaitsFor)
		assert.Zero(t, s.WaitAfter)

		second.again(m)
		for range 20 { // the order of sub-limits is random
			assert.InDelta(t, 58*time.Second, snapshot(t, m, "channel").WaitAfter, float64(time.Second),
				"the first request whose wait is known")
		}
	})
}

// All requests of a bucket wait for declared limits. The snapshot must name the limit of the request that arrived
// first.
func TestSnapshotSaysWhatTheFirstOfThoseInLineWaitsFor(t *testing.T) {
	t.Parallel()
	for _, first := range []routes.CompiledRoute{message(1), list(1)} {
		subtest(t, first.Route().String(), func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour),
				buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Minute,
					buckets.Named(message(1).Route().String())),
				buckets.WithLimit(buckets.ForRoute(routes.ListMessages), 1, time.Minute,
					buckets.Named(list(1).Route().String())))
			discover(t, m, message(1), roomy)
			discover(t, m, list(1), roomy)
			ask(m, first)
			wait(time.Second)
			ask(m, message(1))
			ask(m, list(1))
			s := snapshot(t, m, "messages")
			assert.Equal(t, buckets.WaitsForDeclared, s.WaitsFor)
			assert.Equal(t, first.Route().String(), s.Declared)
		})
	}
}

// While the requests of a bucket wait for the global limit, the bucket gets a hold that ends later. The snapshot must
// name that hold.
func TestSnapshotNamesTheHoldOfABucketThatStandsInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("h", 5, 4, time.Second))
		inFlight := ask(m, message(1))
		m.Throttle(5 * time.Second)
		require.False(t, ask(m, message(1)).done())
		inFlight.update(inBucket(refused(ratelimits.ClassShared, time.Minute), "h", 5, 4, time.Second))
		s := snapshot(t, m, "h")
		assert.InDelta(t, time.Minute, s.WaitAfter, float64(time.Second))
		assert.Equal(t, buckets.WaitsForShared, s.WaitsFor)
	})
}

// A bucket has a short hold and a window that ends much later. The snapshot must name the window.
func TestSnapshotDoesNotNameAHoldThatIsOverLongBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("h", 5, 0, time.Minute))
		m.UpdateRateLimits(message(1), bot,
			inBucket(refused(ratelimits.ClassShared, time.Second), "h", 5, 0, time.Minute))
		require.False(t, ask(m, message(1)).done())
		s := snapshot(t, m, "h")
		assert.Greater(t, s.WaitAfter, 50*time.Second)
		assert.Equal(t, buckets.WaitsForWindow, s.WaitsFor)
	})
}

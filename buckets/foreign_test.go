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

// errorsOf returns a 429 that names a bucket in which the server counts something other than requests to a route.
func errorsOf(wait time.Duration) ratelimits.Response {
	return usedUp("errors", 10, wait)
}

func TestRoutesThatAreRefusedInTheNameOfOneBucketWaitForOneRequest(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 50, 49, time.Minute))
		discover(t, m, list(2), limited("list", 50, 49, time.Minute))
		discover(t, m, compile(routes.GetMyUser), limited("me", 50, 49, time.Minute))
		one, two, three := ask(m, message(1)), ask(m, list(2)), ask(m, compile(routes.GetMyUser))
		one.update(errorsOf(2 * time.Second))
		two.update(errorsOf(4 * time.Second))
		three.update(errorsOf(5 * time.Second))
		waiting := []*caller{ask(m, message(1)), ask(m, list(2)), ask(m, compile(routes.GetMyUser)), ask(m, message(2))}
		wait(4900 * time.Millisecond)
		require.Equal(t, 0, granted(t, waiting), "the last 429 asks for five seconds")
		wait(time.Second)
		require.Equal(t, 1, granted(t, waiting), "one request goes first")
		waiting[0].update(errorsOf(time.Second))
		wait(1500 * time.Millisecond)
		again := ask(m, message(1))
		require.Equal(t, 1, granted(t, waiting[1:]))
		waiting[1].update(limited("list", 50, 49, time.Minute))
		require.Equal(t, 2, granted(t, waiting[2:]), "that request succeeded, so the others may leave, too")
		require.True(t, again.granted())
		for hash, c := range map[string]*caller{"messages": again, "me": waiting[2]} {
			assert.Equal(t, 1, bucketOfMajor(t, m, hash, map[string]string{"messages": "1", "me": "-"}[hash]).InFlight)
			c.update(limited(hash, 50, 40, time.Minute))
		}
	})
}

// A hash that successes name is an ordinary bucket, one for each channel. 429s that name it must hold only the channel
// of the refused request.
func TestRefusalsOfOrdinaryBucketsHoldNoOthers(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("common", 50, 49, time.Minute))
		discover(t, m, list(1), limited("list", 50, 49, time.Minute))
		ask(m, message(1)).update(usedUp("common", 50, time.Minute))
		ask(m, list(1)).update(usedUp("common", 50, time.Minute))
		other := ask(m, message(2))
		assert.True(t, other.granted())
		other.update(limited("common", 50, 49, time.Minute))
		for channel := 3; channel < 6; channel++ { // 429s of a single route are no proof of a foreign bucket either
			ask(m, compile(routes.GetChannel, "3")).update(usedUp("channel", 5, time.Second))
			wait(2 * time.Second)
		}
		for b := range m.Buckets() {
			assert.False(t, b.Hash == "channel" && b.Major == "-")
		}
	})
}

// A request was sent before the 429s and succeeds after them. That proves nothing: the hold must last until its end.
// The response still counts in the request's own bucket.
func TestAResponseToAnEarlierRequestEndsNoHoldOfAnotherBucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 50, 49, time.Minute))
		discover(t, m, list(2), limited("list", 50, 49, time.Minute))
		earlier, one, two := ask(m, message(1)), ask(m, message(1)), ask(m, list(2))
		one.update(errorsOf(2 * time.Second))
		two.update(errorsOf(4 * time.Second))
		waiting := ask(m, message(1))
		earlier.update(limited("messages", 50, 47, time.Minute))
		wait(3 * time.Second)
		require.False(t, waiting.granted())
		wait(2 * time.Second)
		answer(t, waiting, plain(404))
		assert.Equal(t, buckets.WaitsFor(""), bucketOfMajor(t, m, "messages", "1").WaitsFor)
		next := asks(m, message(1), 5)
		require.Equal(t, 5, granted(t, next))
	})
}

// Successes have named a hash, so its buckets are ordinary ones, however many routes get a 429 that names it.
func TestBucketThatSuccessesNameIsNotForeign(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		first, second, third := message(1), compile(routes.GetChannel, "1"), compile(routes.ListChannelInvites, "1")
		discover(t, m, first, limited("one", 5, 4, time.Minute))
		full := usedUp("one", 5, time.Minute)
		discover(t, m, second, full)
		discover(t, m, third, full)
		assert.Equal(t, 0, foreignRoutes(m), "one of the routes has a bucket for all major parameters")
	})
}

// foreignRoutes counts the buckets of hash "one" that ignore the major parameter.
func foreignRoutes(m *buckets.RESTBucketManager) (n int) {
	for b := range m.Buckets() {
		if b.Hash == "one" && b.Major == "-" {
			n++
		}
	}
	return n
}

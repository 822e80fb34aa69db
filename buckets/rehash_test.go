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

func TestQueuesThatMeetAreOneQueueInOrderOfArrival(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("channel", 1, 0, time.Second))
		probe := ask(m, list(1))
		var all []*caller
		for range 3 {
			all = append(all, ask(m, message(1)), ask(m, list(1)))
			wait(time.Millisecond)
		}
		probe.update(usedUp("channel", 1, time.Second))
		for n := 0; n < len(all); {
			wait(500 * time.Millisecond)
			if granted(t, all) > n {
				all[n].update(limited("channel", 1, 0, time.Second))
				n++
			}
		}
	})
}

// A 404 for a message that does not exist names another bucket. The route must stay in its own bucket.
func TestNotFoundDoesNotMoveTheRoute(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("normal", 5, 4, time.Minute))
		missing := limited("young", 3, 0, time.Hour)
		missing.Status = 404
		discover(t, m, message(1), missing)
		assert.Equal(t, 3, snapshot(t, m, "young").Limit, "the other bucket is known, too")
		assert.True(t, ask(m, message(1)).granted())
		assert.Equal(t, 1, snapshot(t, m, "normal").InFlight)
	})
}

func TestRouteThatNamesNoHashGetsOneLater(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("", 2, 1, time.Second))
		nameless := snapshot(t, m, "")
		assert.Equal(t, "POST /channels/{channel_id}/messages", nameless.Route)
		inFlight, waiting := ask(m, message(1)), asks(m, message(1), 3)
		inFlight.update(limited("messages", 2, 0, time.Second))
		require.Zero(t, granted(t, waiting))
		wait(1100 * time.Millisecond)
		firstOpens(t, waiting, limited("messages", 2, 1, time.Second))
		assert.Equal(t, 2, granted(t, waiting))
		assert.Equal(t, "messages", snapshot(t, m, "messages").Hash)
	})
}

// Two routes name the same hash but always different limits. They must get separate buckets.
func TestRoutesThatContradictEachOtherPart(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for range 5 { // the first response contradicts nothing
			discover(t, m, message(1), limited("same", 5, 4, time.Second))
			discover(t, m, list(1), limited("same", 50, 49, time.Second))
			wait(2 * time.Second)
		}
		lists, posts := asks(m, list(1), 60), asks(m, message(1), 10)
		assert.Equal(t, 50, granted(t, lists))
		assert.Equal(t, 5, granted(t, posts))
		for _, c := range append(lists, posts...) {
			c.cancel()
			wait(0)
			c.lease.Return()
		}
		require.Equal(t, 1, m.Stats().Authentications)
		wait(49 * time.Hour)
		s := m.Stats()
		assert.Zero(t, s.Buckets+s.Routes+s.Authentications, "nothing is left when the routes are no longer used")
	})
}

func TestRoutesThatAgreeStayTogether(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for limit := 5; limit <= 7; limit++ { // the limit changes for both routes
			for range 6 {
				discover(t, m, message(1), limited("same", limit, limit-1, time.Second))
				discover(t, m, list(1), limited("same", limit, limit-2, time.Second))
				wait(2 * time.Second)
			}
			// The response to a slow request still names the limit before the change. The next response contradicts this
			// response.
			discover(t, m, list(1), limited("same", limit-1, limit-2, time.Second))
			discover(t, m, message(1), limited("same", limit, limit-3, time.Second))
			wait(2 * time.Second)
		}
		for range 4 {
			discover(t, m, message(1), limited("same", 7, 6, time.Second))
			discover(t, m, list(1), limited("same", 7, 5, time.Second))
			wait(2 * time.Second)
		}
		together := append(asks(m, list(1), 5), asks(m, message(1), 5)...)
		assert.Equal(t, 7, granted(t, together), "both routes share one limit")
		assert.Empty(t, snapshot(t, m, "same").Route)
	})
}

// Two routes get separate buckets after three contradictions about the same limit. Contradictions about an earlier
// limit must not count.
func TestContradictionsEndWithTheLimitThatTheyAreAbout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithEviction(0, time.Hour))
		for _, limits := range [][2]int{{5, 9}, {7, 7}, {7, 11}} {
			for range 3 {
				discover(t, m, message(1), limited("same", limits[0], 4, time.Second))
				discover(t, m, list(1), limited("same", limits[1], 4, time.Second))
				wait(61 * time.Second) // by then a change has reached all of Discord's servers
			}
		}
		assert.Empty(t, bucketOfMajor(t, m, "same", "1").Route, "the routes share the bucket")
	})
}

// For a minute after a change of the limit, some of Discord's servers still name the old limit. The contradictions that
// this causes must not count.
func TestRoutesMayContradictEachOtherForAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithEviction(0, time.Hour))
		for range 2 {
			discover(t, m, message(1), limited("same", 5, 4, time.Second))
			discover(t, m, list(1), limited("same", 5, 3, time.Second))
			wait(2 * time.Second)
		}
		discover(t, m, list(1), limited("same", 6, 5, time.Second))
		contradict := func() (parted bool) {
			wait(2 * time.Second)
			discover(t, m, message(1), limited("same", 5, 4, time.Second))
			discover(t, m, list(1), limited("same", 6, 4, time.Second))
			same := 0
			for b := range m.Buckets() {
				if b.Hash == "same" {
					same++
				}
			}
			return same > 1
		}
		for range 29 {
			require.False(t, contradict())
		}
		wait(time.Second)
		assert.False(t, contradict(), "this is the first contradiction that counts")
		assert.False(t, contradict())
		assert.True(t, contradict())
	})
}

// An ordered request is in flight when its route moves to another bucket. The next ordered request must still wait for
// the first one.
func TestOrderedRequestStaysAloneWhenItsRouteMoves(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("first", 50, 49, time.Minute))
		ordered := buckets.ContextWithOrdered(background)
		request := *request(message(1))
		free, first, second := ask(m, message(1)), call(ordered, m, request), call(ordered, m, request)
		free.update(limited("second", 50, 48, time.Minute))
		assert.Equal(t, 1, snapshot(t, m, "second").InFlight)
		assert.False(t, second.granted(), "the previous request is still in flight, in another bucket")
		first.update(limited("second", 50, 47, time.Minute))
		assert.True(t, second.granted())
	})
}

// A route moves while its old bucket is held. The hold must move with the route, unless it belonged to the old bucket
// itself.
func TestHoldMovesWithItsRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		hash  string // the hash of the old bucket
		class ratelimits.Class
		moves bool
	}{
		{"hold without a known hash", "", ratelimits.ClassUser, true},
		{"hold of the resource", "first", ratelimits.ClassShared, true},
		{"hold of the old bucket", "first", ratelimits.ClassUser, false},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited(c.hash, 50, 49, time.Second))
			first, second := ask(m, message(1)), ask(m, message(1))
			first.update(inBucket(refused(c.class, 10*time.Second), c.hash, 50, 0, 10*time.Second))
			next := ask(m, message(1))
			require.False(t, next.granted())
			second.update(limited("second", 50, 48, time.Second))
			assert.Equal(t, !c.moves, next.granted())
			wait(11 * time.Second)
			require.True(t, next.granted())
		})
	}
}

// A route's hash must be trusted unless it changes often. Three times in a minute is too often.
func TestHashThatChangesNowAndThenIsBelieved(t *testing.T) {
	t.Parallel()
	for pause, together := range map[time.Duration]int{31 * time.Second: 5, 29 * time.Second: 1} {
		bubble(t, func(t *testing.T) {
			// Run the garbage collector so rarely that nothing is evicted meanwhile.
			m := started(t, buckets.WithEviction(time.Hour, buckets.DefaultExpireAfter))
			for i := range 7 {
				discover(t, m, message(1), limited([]string{"first", "second"}[i%2], 50, 49, time.Second))
				wait(pause) // shorter than 30 s: three changes in a minute
			}
			all := asks(m, message(1), 5)
			assert.Equal(t, together, granted(t, all), pause)
			for _, c := range all {
				answer(t, c, limited("first", 50, 45, time.Second))
			}
		})
	}
}

// A route's responses name two hashes in turn, and the last response shows that the window of its hash is used up. The
// route's next request must wait until that window ends.
func TestRouteWhoseHashFlipsWaitsForTheEndOfTheWindowThatIsUsedUp(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		route := compile(routes.GetMyUser)
		flip(t, m, route, 6)
		last := ask(m, route)
		wait(250 * time.Millisecond)
		last.update(limited("second", 50, 0, 850*time.Millisecond))
		next := ask(m, route)
		wait(850*time.Millisecond - 1)
		assert.False(t, next.done())
		wait(2 * time.Millisecond)
		require.True(t, next.granted())
	})
}

// flip sends n requests to a route, whose responses name two hashes in turn. After enough changes, the route's requests
// are sent one at a time.
func flip(t *testing.T, m *buckets.RESTBucketManager, route routes.CompiledRoute, n int) {
	t.Helper()
	for i := range n {
		discover(t, m, route, limited([]string{"first", "second"}[i%2], 50, 49, time.Second))
		wait(2 * time.Millisecond)
	}
}

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
		for channel := 3; channel < 6; channel++ { // 429s of a single route do not prove a foreign bucket
			ask(m, compile(routes.GetChannel, "3")).update(usedUp("channel", 5, time.Second))
			wait(2 * time.Second)
		}
		for b := range m.Buckets() {
			assert.False(t, b.Hash == "channel" && b.Major == "-")
		}
	})
}

// A request was sent before the 429s and succeeds after them. This success proves nothing, so it must not end the hold
// early. The response still counts in the request's own bucket.
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
		assert.Equal(t, 0, foreignRoutes(m), "no route has a bucket for all major parameters")
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

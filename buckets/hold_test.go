package buckets_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// The headers of a 429 have arrived, but not its body. Requests to which the 429 may apply must wait; all others must
// leave.
func TestWhatARefusalMayBeAboutWaitsForItsBody(t *testing.T) {
	t.Parallel()
	requests := map[string]buckets.Request{
		"same bucket":         {Route: message(1), Authorization: bot},
		"another bucket":      {Route: message(2), Authorization: bot},
		"an interaction":      {Route: followUp(1), Authorization: bot},
		"another credential":  {Route: message(1), Authorization: "Bot two"},
		"another server":      {Route: message(1), Authorization: bot, Server: "one.example"},
		"a route never seen":  {Route: compile(routes.GetGateway), Authorization: bot},
		"never seen, Bot two": {Route: compile(routes.GetGateway), Authorization: "Bot two"},
	}
	notTheSame := []string{"another bucket", "an interaction", "another credential", "another server",
		"a route never seen", "never seen, Bot two"}
	for _, c := range []struct {
		class  ratelimits.Class
		passes []string
	}{
		{ratelimits.ClassUser, notTheSame},
		{ratelimits.ClassShared, notTheSame},
		{ratelimits.ClassSubLimit, notTheSame},
		{ratelimits.ClassGlobal, []string{"an interaction", "another credential", "another server", "never seen, Bot two"}},
		{ratelimits.ClassEdge, []string{"another server"}},
	} {
		for _, limit := range []int{0, 50} {
			subtest(t, c.class.String(), func(t *testing.T) {
				m := started(t, buckets.WithGlobalLimit(limit))
				for name, request := range requests {
					if request.Route != compile(routes.GetGateway) {
						call(background, m, request).update(limited(name, 100, 90, time.Minute))
					}
				}
				slow := call(background, m, requests["same bucket"])
				slow.lease.Refused(refused(c.class, time.Second))
				slow.lease.Refused(refused(c.class, time.Second))
				callers := make(map[string]*caller)
				for name, request := range requests {
					callers[name] = call(background, m, request)
				}
				wait(3 * time.Second)
				for name, waiting := range callers {
					assert.Equal(t, slices.Contains(c.passes, name), waiting.granted(), "%s", name)
				}
				slow.update(roomy) // after all, the response is a success
				wait(time.Millisecond)
				for name, waiting := range callers {
					require.True(t, waiting.granted(), "%s", name)
					waiting.update(roomy)
				}
				require.True(t, ask(m, message(1)).granted())
			})
		}
	}
}

// The body of a 429 names another class or a longer wait than its headers. The body must decide.
func TestBodyOfARefusalSaysForHowLong(t *testing.T) {
	t.Parallel()
	for _, first := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassGlobal, ratelimits.ClassEdge} {
		for _, last := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassGlobal, ratelimits.ClassEdge} {
			for _, limit := range []int{0, 50} {
				subtest(t, first.String()+" "+last.String(), func(t *testing.T) {
					m := started(t, buckets.WithGlobalLimit(limit))
					discover(t, m, message(1), roomy)
					slow := ask(m, message(1))
					slow.lease.Refused(refused(first, time.Second))
					all := asks(m, message(1), 20)
					wait(4 * time.Second)
					require.Zero(t, granted(t, all))
					slow.update(refused(last, 10*time.Second))
					wait(5 * time.Second) // 9 s after the headers of the 429
					require.Zero(t, granted(t, all))
					wait(2 * time.Second)
					drive(t, all)
				})
			}
		}
	}
}

func TestHoldsAreLiftedByHand(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		c := g.call(m)
		require.False(t, c.done())
		m.LiftHolds()
		wait(time.Millisecond)
		switch g.name {
		case "global throttle", "global 429", "hold of the bucket", "hold of the resource", "edge", "sub-limit":
			require.True(t, c.granted())
		default:
			require.False(t, c.granted(), "the request does not wait for a hold")
			open()
		}
		drive(t, []*caller{c})
		m.LiftHolds()
	})
}

// LiftHolds ends the hold of a 429. After that, one request must first leave alone.
func TestLiftedHoldIsTriedWithOneRequest(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		discover(t, m, message(1),
			inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 100, 90, time.Minute))
		all := patiently(m, 5)
		m.LiftHolds()
		wait(0)
		require.Equal(t, 1, granted(t, all))
		assert.Zero(t, snapshot(t, m, "messages").HoldAfter)
		drive(t, all)
	})
}

// LiftHolds must restart the backoff for consecutive 429s, whether the hold has already ended or not.
func TestLiftedHoldsAreNotInARowWithLaterOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route routes.CompiledRoute
		class ratelimits.Class
	}{
		"user":           {message(1), ratelimits.ClassUser},
		"shared":         {message(1), ratelimits.ClassShared},
		"sub-limit":      {message(1), ratelimits.ClassSubLimit},
		"global":         {message(1), ratelimits.ClassGlobal},
		"edge":           {message(1), ratelimits.ClassEdge},
		"global, exempt": {followUp(1), ratelimits.ClassGlobal}, // the hold is that of the bucket's window
	} {
		// The ninth hold lasts 16 s. After 17 s the bucket is not evicted yet.
		for _, after := range []time.Duration{1100 * time.Millisecond, 17 * time.Second} {
			subtest(t, fmt.Sprintf("%s after %v", name, after), func(t *testing.T) {
				m := started(t)
				discover(t, m, c.route, roomy)
				again := refused(c.class, 100*time.Millisecond)
				if !c.route.Route().GlobalExempt() {
					again = inBucket(again, "messages", 100, 90, time.Second)
				}
				for range 9 {
					r := ask(m, c.route)
					for !r.granted() {
						wait(100 * time.Millisecond)
					}
					r.update(again)
				}
				wait(after)
				r := ask(m, c.route)
				wait(0)
				require.Equal(t, after > 16*time.Second, r.granted(), "nine consecutive 429s hold the bucket for 16 s")
				m.LiftHolds()
				wait(0)
				answer(t, r, again)
				wait(1100 * time.Millisecond)
				assert.True(t, ask(m, c.route).granted(), "the nine 429s must no longer count")
			})
		}
	}
}

// patiently sends n requests that accept a wait of two hours.
func patiently(m *buckets.RESTBucketManager, n int) (all []*caller) {
	for range n {
		all = append(all, patient(m, 2*time.Hour))
	}
	return all
}

// A lease waits for the body of a 429 while the manager is restarted. After the restart, a new lease waits for the body
// of another 429. The end of the old lease must not end the new lease's wait.
func TestLeaseOfBeforeARestartEndsNoPauseOfAfterIt(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		before := ask(m, message(1))
		before.lease.Refused(refused(ratelimits.ClassEdge, time.Minute))
		require.NoError(t, m.Close())
		wait(time.Second)
		require.NoError(t, m.Start())
		discover(t, m, message(1), roomy)
		slow := ask(m, message(1))
		slow.lease.Refused(refused(ratelimits.ClassEdge, time.Minute))
		wait(time.Millisecond)
		before.lease.Release()
		wait(time.Millisecond)
		assert.False(t, ask(m, message(1)).granted(), "the body of the refusal has not come yet")
	})
}

// The Retry-After of a 429 must count from the arrival of its headers, not of its body.
func TestWaitOfARefusalCountsFromItsHeaders(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassGlobal, ratelimits.ClassEdge} {
		subtest(t, class.String(), func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 100, 99, time.Second))
			slow, refusal := ask(m, message(1)), refused(class, 5*time.Second)
			if class == ratelimits.ClassUser {
				refusal = inBucket(refusal, "messages", 100, 0, 5*time.Second)
			}
			slow.lease.Refused(refusal)
			waiting := ask(m, message(1))
			wait(4 * time.Second) // then the body arrives and names the same wait
			slow.update(refusal)
			wait(1500 * time.Millisecond)
			assert.True(t, waiting.granted(), "the wait of 5 s began 5.5 s ago")
		})
	}
}

// A shared 429 holds a resource for all credentials, even for credentials that have not used the resource yet. The
// manager must remember that hold once, and not in a bucket for each credential.
func TestUsedUpResourceMakesNoBuckets(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		const credentials = 1000
		name := func(i int) string { return fmt.Sprint("Bot ", i) }
		for i := range credentials { // each credential learns the hash from another channel
			as(m, name(i), message(2)).update(limited("messages", 5, 4, time.Second))
		}
		m.Throttle(time.Hour)
		m.LiftHolds()
		for i := range credentials {
			sendNow(t, m, message(2), name(i), limited("messages", 5, 3, time.Second))
		}
		before := m.Stats().Buckets
		as(m, name(0), message(1)).update(inBucket(refused(ratelimits.ClassShared, 40*time.Second),
			"messages", 5, 4, time.Second))
		assert.Equal(t, 1, m.Stats().Buckets-before, "one bucket is created")

		wait(25 * time.Second) // meanwhile the garbage collector runs
		late, elsewhere := as(m, name(7), message(1)), as(m, name(7), message(3))
		assert.False(t, late.granted(), "the resource is held")
		assert.True(t, elsewhere.granted(), "another resource is not held")
		wait(15*time.Second - time.Millisecond)
		require.False(t, late.granted())
		wait(2 * time.Millisecond)
		assert.True(t, late.granted(), "the hold is over")

		wait(time.Minute)
		assert.True(t, as(m, name(8), message(1)).granted(), "the hold is forgotten")
	})
}

// LiftHolds or a restart ends the hold of a resource. Buckets that are created after that must not be held.
func TestLiftedOrRestartedManagerHoldsNoResource(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lifted", "restarted"} {
		subtest(t, how, func(t *testing.T) {
			m := started(t)
			as(m, "Bot two", message(2)).update(limited("messages", 5, 4, time.Second))
			as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
				"messages", 5, 4, time.Second))
			if how == "lifted" {
				m.LiftHolds()
			} else {
				slow := as(m, "Bot one", message(2))
				require.NoError(t, m.Close())
				require.NoError(t, m.Start())
				slow.update(inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 5, 4, time.Second))
				as(m, "Bot two", message(2)).update(limited("messages", 5, 4, time.Second))
			}
			assert.True(t, as(m, "Bot two", message(1)).granted())
			assert.True(t, as(m, "Bot two", message(2)).granted())
		})
	}
}

// A shared 429 holds a resource for all credentials. If a route of another credential then moves to a new hash, the
// route's requests to the resource must still be held.
func TestHoldOfAResourceFollowsARouteThatMoves(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{"Bot one", "Bot two"} {
			for _, channel := range []int{2, 3} {
				as(m, credential, message(channel)).update(limited("old", 5, 4, time.Second))
			}
		}
		as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
			"old", 5, 4, time.Second))
		wait(5 * time.Second)
		for _, channel := range []int{2, 3} {
			as(m, "Bot two", message(channel)).update(limited("new", 5, 4, time.Second))
		}
		assert.False(t, as(m, "Bot two", message(1)).granted(),
			"the channel is held, although its bucket has another hash")
	})
}

// The hold of a resource moves with a route to a bucket where requests of another route wait. The requests of the other
// route must be rejected if their waits become too long.
func TestWaitersAreJudgedAgainWhenAHoldComesWithARoute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute))
		as(m, "Bot one", message(1)).update(limited("old", 5, 4, time.Second))
		for _, channel := range []int{2, 3} {
			as(m, "Bot two", message(channel)).update(limited("old", 5, 4, time.Second))
		}
		as(m, "Bot two", list(1)).update(limited("new", 5, 0, 30*time.Second))
		waiting := as(m, "Bot two", list(1))
		as(m, "Bot one", message(1)).update(inBucket(refused(ratelimits.ClassShared, time.Hour),
			"old", 5, 4, time.Second))
		wait(5 * time.Second)
		for _, channel := range []int{2, 3} {
			require.False(t, waiting.done())
			as(m, "Bot two", message(channel)).update(limited("new", 5, 4, time.Second))
		}
		assert.Equal(t, ratelimits.ClassShared, tooLong(t, waiting).Class)
	})
}

// A shared 429 in one process must hold the resource for all credentials, in the other processes as well.
func TestHoldOfAResourceReachesOtherProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := pair(t, newStore(t))
		for _, m := range []*buckets.RESTBucketManager{a, b} {
			c := as(m, "Bot two", message(2))
			exchanged()
			answer(t, c, limited("messages", 5, 4, time.Second))
		}
		discoverShared(t, a, message(1), inBucket(refused(ratelimits.ClassShared, time.Hour), "messages", 5, 4, time.Second))
		assert.False(t, as(b, "Bot two", message(1)).granted(), "the channel is held for all credentials")
	})
}

// A shared 429 without Retry-After must hold the resource for the same time for all credentials.
func TestResourceIsHeldAsLongForOtherCredentials(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, credential := range []string{"Bot one", "Bot two"} {
			as(m, credential, message(1)).update(limited("messages", 5, 4, time.Second))
		}
		wait(2 * time.Second)
		unsaid := inBucket(ratelimits.Response{Status: 429, Class: ratelimits.ClassShared},
			"messages", 5, 4, time.Minute)
		as(m, "Bot one", message(1)).update(unsaid)
		wait(5 * time.Second)
		one, two := as(m, "Bot one", message(1)), as(m, "Bot two", message(1))
		assert.Equal(t, one.granted(), two.granted())
	})
}

// The edge refuses requests without a Retry-After. With each further 429 the hold must double, up to ten minutes.
func TestHoldOfTheEdgeDoublesUpToTenMinutes(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for row := range 12 {
			answer(t, ask(m, message(1)), ratelimits.Response{Status: 429, Class: ratelimits.ClassEdge})
			hold := m.EdgeWait("")
			assert.Equal(t, min(2*time.Second<<row, 10*time.Minute), hold)
			wait(hold)
		}
	})
}

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

// patience is how long requests wait for the outcome of another request.
const patience = 10 * time.Second

// slowOutcome is a situation in which requests wait for the outcome of one request.
type slowOutcome struct {
	name   string
	before []answered          // earlier requests
	slow   buckets.Request     // the request without an outcome; it may first have to wait for a hold of a second
	unread ratelimits.Class    // class of a 429 of which only the headers arrive, after 3 s
	next   buckets.Request     // the request that waits for the outcome
	answer ratelimits.Response // response to all requests; roomy if this is zero
}

// prepare sends the request that has no outcome.
func (o *slowOutcome) prepare(t *testing.T, m *buckets.RESTBucketManager) (slow *caller) {
	t.Helper()
	discoverAll(t, m, o.before)
	slow = call(background, m, o.slow)
	if !slow.done() {
		wait(time.Second + time.Millisecond)
	}
	require.True(t, slow.granted())
	if o.unread != ratelimits.ClassOK {
		wait(3 * time.Second)
		slow.lease.Refused(refused(o.unread, time.Second))
	}
	return slow
}

// slowOutcomes lists all situations in which requests wait for an outcome.
var slowOutcomes = func() []slowOutcome {
	one, two, reaction := *request(message(1)), *request(message(2)), limited("reactions", 100, 90, time.Minute)
	both := []answered{roomyMessage, {two, roomy}}
	refusal := func(class ratelimits.Class) []answered {
		return []answered{roomyMessage, {two, roomy}, {one, refused(class, time.Second)}}
	}
	var flips []answered
	for i := range 8 {
		flips = append(flips, answered{one, limited([]string{"first", "second"}[i%2], 50, 49, time.Second)})
	}
	return []slowOutcome{
		{name: "unknown route", slow: one, next: two},
		{name: "unknown family", slow: *request(react(1)), next: *request(unreact(2)), answer: reaction},
		{name: "unknown route after an error", before: []answered{{one, plain(404)}}, slow: one, next: one},
		{
			name: "route with a hint", before: []answered{{*request(react(1)), reaction}},
			slow: *request(unreact(1)), next: *request(unreact(1)), answer: reaction,
		},
		{name: "first after a 429 of the resource", before: []answered{sharedHold}, slow: one, next: one},
		{name: "first after a global 429", before: refusal(ratelimits.ClassGlobal), slow: one, next: two},
		{name: "first after a refusal of the edge", before: refusal(ratelimits.ClassEdge), slow: one, next: two},
		{name: "unread 429 of the bucket", before: both, slow: one, unread: ratelimits.ClassUser, next: one},
		{name: "unread global 429", before: both, slow: one, unread: ratelimits.ClassGlobal, next: two},
		{name: "unread refusal of the edge", before: both, slow: one, unread: ratelimits.ClassEdge, next: two},
		{name: "unstable route", before: flips, slow: one, next: one, answer: plain(200)},
		{
			name: "first after a 429 of a sub-limit", before: []answered{roomyMessage, subLimitHold(time.Second)},
			slow: renaming(1), next: renaming(1),
		},
	}
}()

// renaming returns a request with the field "name" in its body. A sub-limit can apply to such a request.
func renaming(channel int) buckets.Request {
	fields := func() []string { return []string{"name"} }
	return buckets.Request{Route: message(channel), Authorization: bot, Fields: fields}
}

func TestOutcomeOfOneRequestIsWaitedForOnlySoLong(t *testing.T) {
	t.Parallel()
	for _, c := range slowOutcomes {
		subtest(t, c.name, func(t *testing.T) {
			answer := c.answer
			if answer.Status == 0 {
				answer = roomy
			}
			m := started(t)
			slow := c.prepare(t, m)
			var all []*caller
			for range 100 {
				all = append(all, call(background, m, c.next))
			}
			wait(patience - time.Millisecond)
			require.Equal(t, 0, granted(t, all))
			wait(2 * time.Millisecond)
			require.Equal(t, 1, granted(t, all), "one more request leaves")
			wait(patience)
			require.Equal(t, 2, granted(t, all), "the others no longer wait for the outcome of the second request")
			wait(40*time.Second - 2*patience)
			slow.update(answer)
			all[1].update(answer)
			drive(t, all[2:])
		})
	}
}

// The first request of a route is a slow upload. After some time, the other requests no longer wait for it. When the
// upload's response arrives, each request must be counted once and in the right bucket.
func TestSlowProbeIsCountedOnce(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		upload := ask(m, message(1))
		same, others := asks(m, message(1), 6), asks(m, message(2), 9)
		wait(patience + time.Millisecond)
		require.Equal(t, 1, granted(t, same), "one request in each channel")
		require.Equal(t, 1, granted(t, others))
		// The server has not counted the upload in this bucket yet.
		same[0].update(limited("messages", 5, 4, time.Minute))
		assert.Equal(t, 4, granted(t, same), "four are left, and the upload may take one of them")
		assert.Equal(t, 2, granted(t, others), "one more request discovers the limit of the other channel")
		others[0].update(limited("messages", 5, 4, time.Minute))
		others[1].update(limited("messages", 5, 3, time.Minute))
		assert.Equal(t, 5, granted(t, others), "the upload does not count in the other channel")
		for i, c := range others[2:5] {
			c.update(limited("messages", 5, 2-i, time.Minute))
		}
		for i, c := range same[1:4] {
			c.update(limited("messages", 5, 3-i, time.Minute))
		}
		wait(25 * time.Second)
		require.Equal(t, 4, granted(t, same), "the upload may have been counted")
		upload.update(limited("messages", 5, 0, 35*time.Second))
		assert.Zero(t, bucketOfMajor(t, m, "messages", "1").InFlight)
		assert.Zero(t, bucketOfMajor(t, m, "messages", "1").Remaining)
		require.Equal(t, 4, granted(t, same), "the bucket is used up")
		wait(36 * time.Second)
		require.Equal(t, 6, granted(t, same))
		same[4].update(limited("messages", 5, 4, time.Minute))
		same[5].update(limited("messages", 5, 3, time.Minute))
		assert.Equal(t, 3, bucketOfMajor(t, m, "messages", "1").Remaining)
	})
}

// A probe takes longer than the constant patience. After that time, new requests and predictions must not wait for the
// probe, even if no request was waiting when the time ended.
func TestSlowProbeDoesNotStopWhoComesLater(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		ask(m, message(1))
		wait(patience / 2)
		_, err := m.TryAcquire(message(2), bot)
		require.Error(t, err)
		wait(patience)
		predicted, because := predict(t, m, request(message(2)))
		assert.Zero(t, predicted)
		assert.Equal(t, buckets.WaitsForNothing, because)
		lease, err := m.TryAcquire(message(2), bot)
		require.NoError(t, err)
		lease.Update(roomy)
	})
}

// One request waits for a bucket that opens much later. Nevertheless, requests that wait for a probe must leave when
// they have waited as long as the constant patience.
func TestSlowProbeIsNotAwaitedUntilAnotherBucketOpens(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, react(1), limited("reactions", 1, 0, time.Minute))
		later := ask(m, react(1))
		wait(patience + time.Second) // the timer that was set for the discovery fires, and is set to the opening
		ask(m, message(1))
		next := ask(m, message(1))
		wait(patience + time.Millisecond)
		assert.True(t, next.granted())
		assert.False(t, later.granted())
	})
}

// After the time patience, a second request is sent. If the outcome of the first request arrives then, the third
// request must still wait for the outcome of the second.
func TestLateOutcomeDoesNotLetASecondOneGo(t *testing.T) {
	t.Parallel()
	for _, c := range slowOutcomes {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t)
			slow := c.prepare(t, m)
			wait(patience + time.Millisecond)
			second, third := call(background, m, c.next), call(background, m, c.next)
			require.True(t, second.granted())
			slow.lease.Release()
			wait(time.Second)
			assert.False(t, third.granted(), "the third request waits for the outcome of the second")
		})
	}
}

// The headers of a 429 arrive, but its body never does. The manager must respect the wait in the headers. After that
// wait, one request must first leave alone.
func TestWaitOfAnUnreadRefusalCounts(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{
		ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassGlobal, ratelimits.ClassEdge,
	} {
		subtest(t, class.String(), func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 100, 90, time.Hour))
			slow := ask(m, message(1))
			slow.lease.Refused(refused(class, time.Minute))
			all := asks(m, message(1), 3)
			wait(59 * time.Second)
			require.Equal(t, 0, granted(t, all))
			wait(2 * time.Second)
			require.Equal(t, 1, granted(t, all))
			all[0].update(limited("messages", 100, 89, time.Hour))
			require.Equal(t, 3, granted(t, all))
		})
	}
}

// A request of an undiscovered route may belong to the bucket of another route. So requests of that bucket must also
// wait for the outcome of the undiscovered request, but not longer than the constant patience.
func TestSlowRequestOfAnotherRouteIsWaitedForOnlySoLong(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 100, 99, time.Second))
		wait(5 * time.Second)
		discover(t, m, message(1), limited("messages", 100, 98, time.Second))
		ask(m, list(1))
		// After this response, the next request is sent alone, unless it has to wait for the outcome of another request.
		discover(t, m, message(1), ratelimits.Response{})
		wait(6 * time.Second)
		next := ask(m, message(1))
		require.False(t, next.done())
		wait(patience - 6*time.Second)
		require.True(t, next.granted())
	})
}

// Three credentials get the headers of a global 429 with a wait of an hour, but no body. After the time patience, the
// headers count, so the waiting requests of these credentials must be rejected.
func TestUnreadRefusalsOfSeveralCredentialsRejectWhoWaitsTooLong(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute))
		var slow, waiting []*caller
		for _, credential := range []string{"Bot one", "Bot two", "Bot three"} {
			as(m, credential, message(1)).update(roomy)
			slow = append(slow, as(m, credential, message(1)))
		}
		for _, c := range slow {
			c.lease.Refused(refused(ratelimits.ClassGlobal, time.Hour))
			waiting = append(waiting, as(m, c.request.Authorization, message(1)))
		}
		wait(patience - 1)
		assert.Zero(t, granted(t, waiting))
		wait(1)
		for _, c := range waiting {
			assert.Equal(t, ratelimits.ClassGlobal, tooLong(t, c).Class)
		}
		as(m, "Bot four", message(1)).update(roomy) // the same for a 429 of a bucket
		as(m, "Bot four", message(1)).lease.Refused(refused(ratelimits.ClassUser, time.Hour))
		last := as(m, "Bot four", message(1))
		wait(patience)
		tooLong(t, last)
	})
}

// Requests have waited for a slow request as long as they must (the constant patience). When the slow request moves to
// another bucket, the requests there must not wait for it again.
func TestSlowRequestThatMovesIsNotWaitedForAgain(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, list(1), limited("new", 100, 99, time.Second))
		discover(t, m, message(1), limited("old", 100, 99, time.Second))
		ask(m, message(1))
		wait(patience)
		discover(t, m, message(1), limited("new", 100, 98, time.Second))
		// After this response, the next request is sent alone, unless it has to wait for the outcome of another request.
		discover(t, m, list(1), ratelimits.Response{})
		wait(10 * time.Second)
		require.True(t, ask(m, list(1)).granted())
	})
}

// An ordered request must wait for the outcome of the one before it, however long that takes.
func TestOrderedRequestWaitsForItsPredecessorHoweverLong(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), roomy)
		ordered := gate{ordered: true}
		before, after := ordered.call(m), ordered.call(m)
		require.True(t, before.granted())
		wait(4 * patience)
		assert.False(t, after.done())
		before.update(roomy)
		require.True(t, after.granted())
	})
}

// A hundred requests of a route get no response. Together, they must delay later requests by the time patience once,
// not a hundred times.
func TestRequestsThatDoNotEndHoldOthersOnlyOnce(t *testing.T) {
	t.Parallel()
	for name, route := range map[string]func(int) routes.CompiledRoute{"route": message, "family": react} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			var slow []*caller
			for channel := range 100 {
				slow = append(slow, ask(m, route(1+channel)))
			}
			others := []*caller{ask(m, route(1000)), ask(m, route(1001)), ask(m, route(1000))}
			wait(patience + time.Millisecond)
			require.Equal(t, 100, granted(t, slow), "one request in each channel")
			require.Equal(t, 2, granted(t, others))
			others[0].update(roomy)
			require.Equal(t, 3, granted(t, others))
		})
	}
}

package buckets_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// newer sends a message to channel 1 that supersedes older ones with the same key.
func newer(m *buckets.RESTBucketManager, key string) *caller {
	return call(background, m, buckets.Request{Route: message(1), Authorization: bot, Supersedes: key})
}

// assertSuperseded asserts that a caller was superseded; again says whether the request had been sent before.
func assertSuperseded(t *testing.T, c *caller, again bool) {
	t.Helper()
	var superseded *ratelimits.SupersededError
	if assert.ErrorAs(t, c.failed(), &superseded) {
		assert.Equal(t, ratelimits.SupersededError{Route: c.request.Route.Route().String(), Again: again}, *superseded)
	}
}

// A newer request must leave when the older one would have left, and the older one must fail at once.
func TestANewerRequestTakesThePlaceOfTheOlderOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		before, older, behind := ask(m, message(1)), newer(m, "status"), ask(m, message(1))
		var last *caller
		for range 10 {
			last = newer(m, "status")
			assertSuperseded(t, older, false)
			assert.EqualError(t, older.err, "superseded: POST /channels/{channel_id}/messages was never sent, "+
				"because a newer request with the same key took its place")
			older = last
		}
		assert.Equal(t, 3, m.Stats().Waiting)
		next(t, before)
		next(t, last)
		next(t, behind)
		drained(t, m)
		assert.Equal(t, uint64(10), m.Stats().Superseded)
	})
}

// Requests with the same key supersede each other only if they have the same credential, server, route and channel.
func TestAKeyIsComparedAmongTheSameCredentialRouteAndChannel(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		m.Throttle(time.Minute)
		var all []*caller
		for _, r := range []buckets.Request{
			{Route: message(1), Authorization: bot, Supersedes: "a"},
			{Route: message(1), Authorization: bot, Supersedes: "b"},
			{Route: message(1), Authorization: bot},
			{Route: message(1), Authorization: bot},
			{Route: message(1), Authorization: "Bot two", Supersedes: "a"},
			{Route: message(1), Supersedes: "a"},
			{Route: message(1), Authorization: bot, Server: "other", Supersedes: "a"},
			{Route: message(2), Authorization: bot, Supersedes: "a"},
			{Route: list(1), Authorization: bot, Supersedes: "a"},
		} {
			all = append(all, call(background, m, r))
		}
		wait(0)
		for i, c := range all {
			assert.NoError(t, c.failed(), "request %d", i)
		}
		ctx := buckets.ContextWithSupersedes(background, "a")
		call(ctx, m, *request(message(1)))
		assertSuperseded(t, all[0], false)
		call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Supersedes: "b"})
		assertSuperseded(t, all[1], false)
	})
}

// A newer request must take the place of the older one, whatever limit their queue waits for.
func TestANewerRequestTakesThePlaceWhateverItWaitsFor(t *testing.T) {
	t.Parallel()
	forEachGate(t, func(t *testing.T, m *buckets.RESTBucketManager, g gate, open func()) {
		status := buckets.ContextWithSupersedes(background, "status")
		before, older, behind := g.call(m), g.callWith(status, m), g.call(m)
		require.False(t, before.done())
		last := g.callWith(status, m)
		assertSuperseded(t, older, false)
		assert.Equal(t, 3, m.Stats().Waiting)
		open()
		all := []*caller{before, last, behind}
		for ended := 0; ended < len(all); wait(time.Second) {
			for n := granted(t, all); ended < n; ended++ {
				g.end(all[ended])
			}
		}
	})
}

// A thousand edits of a message are made in ten seconds, and the server allows five in five seconds. The last edit must
// be sent without waiting behind the others.
func TestAThousandEditsOfOneMessage(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			const edits, pace, window = 1000, 10 * time.Millisecond, 5 * time.Second
			w := newWorld(t, one(discordsim.Rule{Quota: discordsim.Fixed(5, window)}))
			ctx := buckets.ContextWithSupersedes(background, "edit")
			if ordered {
				ctx = buckets.ContextWithOrdered(ctx)
			}
			var made, ended [edits]time.Time
			superseded := 0
			for i := range edits {
				made[i] = time.Now()
				w.send(ctx, "PATCH", "/channels/1/messages/2", func(_ int, err error) {
					ended[i] = time.Now()
					var expected *ratelimits.SupersededError
					if errors.As(err, &expected) {
						superseded++ // needs no lock: no two requests end at the same time
						assert.Equal(t, made[i+1], ended[i], "edit %d ends when the next edit is made", i)
						return
					}
					assert.NoError(t, err)
				})
				wait(pace)
			}
			w.finish()
			got := accepted(w.Server)
			assert.Zero(t, refusals(w.Server))
			assert.LessOrEqual(t, len(got), 11)
			assert.Equal(t, edits, got[len(got)-1], "the last edit arrives last")
			assert.True(t, slices.IsSorted(got))
			assert.LessOrEqual(t, ended[edits-1].Sub(made[edits-1]), window+trip.RoundTrip)
			assert.Equal(t, edits, len(got)+superseded)
			t.Logf("ordered %t: %d sent, the last one ended %v after its call",
				ordered, len(got), ended[edits-1].Sub(made[edits-1]))
		})
	}
}

// Queues of several buckets wait for the global limit. A newer request must keep the turn of the older one's queue,
// even if that queue had no other request.
func TestANewerRequestTakesTheTurnOfTheOlderOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1))
		for channel := range 3 {
			discover(t, m, message(1+channel), limited("messages", 1000, 1000, time.Minute))
			wait(2 * time.Second)
		}
		ask(m, list(7)).update(plain(200))
		older, others := newer(m, "a"), []*caller{ask(m, message(2)), ask(m, message(3))}
		last := newer(m, "a")
		assertSuperseded(t, older, false)
		for _, want := range []*caller{last, others[0], others[1]} {
			assert.False(t, want.done())
			wait(time.Second + time.Millisecond)
			answer(t, want, limited("messages", 1000, 1000, time.Minute))
		}
	})
}

// A request got a 429, so it was not processed. The request must not be sent again if a newer request with the same key
// has been sent or waits.
func TestARefusedRequestIsSupersededByANewerOne(t *testing.T) {
	t.Parallel()
	refusal := usedUp("messages", 5, time.Minute)
	for steps, superseded := range map[string]bool{ // whether the old request is superseded
		"old refused, old again":                                            false,
		"old refused, old again, new":                                       true,
		"old refused, new, old again":                                       true,
		"new, new refused, new again, old refused, old again":               true,
		"new, new in flight, old refused, old again":                        true,
		"new, new answered, old refused, old again":                         true,
		"throttled, new, new cancelled, old refused, old again":             false,
		"new, new not sent, old refused, old again":                         false,
		"old refused, old again, another one that is rejected for its wait": false,
	} {
		subtest(t, steps, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, message(1), limited("messages", 5, 4, time.Minute))
			old := newer(m, "a")
			require.True(t, old.granted())
			var last *caller
			for step := range strings.SplitSeq(steps, ", ") {
				switch step {
				case "old refused":
					old.update(refusal)
				case "old again":
					old.again(m)
				case "new":
					last = newer(m, "a")
				case "new in flight":
					require.True(t, last.granted())
				case "new refused":
					last.update(refusal)
				case "new again":
					last.again(m)
				case "new answered":
					answer(t, last, limited("messages", 5, 1, time.Minute))
				case "new not sent":
					require.True(t, last.granted())
					last.lease.Return()
				case "new cancelled":
					last.cancel()
					wait(0)
				case "throttled":
					m.Throttle(time.Minute)
				default:
					tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m,
						buckets.Request{Route: message(1), Authorization: bot, Supersedes: "a"}))
				}
			}
			if superseded {
				assertSuperseded(t, old, true)
			} else {
				last = old
			}
			wait(3 * time.Minute)
			require.True(t, last.granted())
			last.lease.Update(limited("messages", 5, 0, time.Minute))
			drained(t, m)

			// Requests that have ended supersede nothing, so the Request can be used again as a new one.
			old.again(m)
			wait(3 * time.Minute)
			require.True(t, old.granted())
		})
	}
}

// A newer request supersedes an older one. Neither the bound of the queue nor the prediction for the newer request may
// count the older one.
func TestThePlaceOfTheOlderRequestIsFree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t, buckets.WithMaxWaiting(3))
		ask(m, message(1))
		older := newer(m, "a")
		ask(m, message(1))
		request := buckets.Request{Route: message(1), Authorization: bot, Supersedes: "a"}
		predicted, _ := predict(t, m, &request)
		assert.Equal(t, 2*time.Minute, predicted.Truncate(time.Second))
		other, _ := predict(t, m, &buckets.Request{Route: message(1), Authorization: bot})
		assert.Equal(t, 4*time.Minute, other.Truncate(time.Second))
		last := call(buckets.ContextWithMaxWait(background, 2*time.Minute+time.Second), m, request)
		assertSuperseded(t, older, false)
		assert.NoError(t, last.failed())
		for w := range m.WaitingRequests() {
			if w.Ahead == 1 {
				assert.Equal(t, predicted, w.WaitAfter)
			}
		}
		require.NoError(t, m.Close())
		wait(0)
		assert.ErrorIs(t, last.failed(), buckets.ErrClosed)
	})
}

func TestTheNewerRequestKeepsThePlaceAmongProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a, b := sharers(t, 1)
		first, older := ask(a, message(1)), newer(a, "a")
		wait(5 * time.Millisecond) // until the store knows the arrivals
		other := ask(b, message(1))
		wait(5 * time.Millisecond)
		require.True(t, first.granted())
		last := newer(a, "a")
		assertSuperseded(t, older, false)
		first.update(limited("messages", 1, 0, time.Second))
		for _, c := range []*caller{last, other} {
			wait(1100 * time.Millisecond)
			answer(t, c, limited("messages", 1, 0, time.Second))
		}
	})
}

// A newer request with a maximum wait of 0 must not supersede a waiting one, even while the store has not answered yet.
func TestARequestThatMustNotWaitSupersedesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := patientStore(t)
		a, _ := pairDeclares(t, s)
		s.freeze(true)
		older := newer(a, "a")
		require.False(t, older.done(), "the request waits for the store's answer")
		var tooLong *ratelimits.TooLongError
		last := call(buckets.ContextWithMaxWait(background, 0), a,
			buckets.Request{Route: message(1), Authorization: bot, Supersedes: "a"})
		require.ErrorAs(t, last.failed(), &tooLong)
		assert.False(t, older.done())
	})
}

// A newer request belongs to another group and takes an early place in that group's queue. If that makes the wait of
// another request in this queue too long, the other request must be rejected.
func TestOthersInTheQueueOfTheNewerOneAreJudgedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := full(t)
		in := func(ctx context.Context, group, key string) *caller {
			return call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Group: group, Supersedes: key})
		}
		older := in(background, "one", "a")
		in(background, "one", "")
		impatient := in(buckets.ContextWithMaxWait(background, 2*time.Minute+30*time.Second), "two", "")
		require.NoError(t, impatient.failed())
		in(background, "two", "a")
		assertSuperseded(t, older, false)
		tooLong(t, impatient)
	})
}

// A newer request takes the place of a refused one. If that makes the wait of a request between the two places too
// long, the request must be rejected at once.
func TestOthersBetweenARefusedRequestAndTheNewerOneAreJudgedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := full(t)
		old := newer(m, "a")
		wait(time.Minute + 2*time.Millisecond)
		impatient := call(buckets.ContextWithMaxWait(background, 90*time.Second), m, *request(message(1)))
		newer(m, "a")
		old.update(usedUp("messages", 1, time.Minute))
		require.NoError(t, impatient.failed())
		old.again(m)
		assertSuperseded(t, old, true)
		tooLong(t, impatient)
	})
}

// A newer request takes the place of an older one and is sent at once. If the newer request gets a 429, it must come
// back to that place.
func TestNewerOneThatLeavesAtOnceKeepsThePlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, compile(routes.UpdateChannel, "1"), channelOK)
		call(background, m, change("1", "name")).update(renamed) // holds "name"
		rename, topic := change("1", "name"), change("1", "topic")
		rename.Supersedes, topic.Supersedes = "a", "a"
		older := call(background, m, rename)
		require.False(t, older.done())
		wait(time.Second)
		other := call(background, m, change("1", "topic"))
		require.True(t, other.granted())
		last := call(background, m, topic)
		assertSuperseded(t, older, false)
		require.True(t, last.granted())
		refusal := usedUp("channel", 5, time.Minute)
		other.update(refusal)
		last.update(refusal)
		other.again(m)
		last.again(m)
		wait(time.Minute + 2*time.Millisecond)
		assert.True(t, last.done(), "the request has the place of the older request, which came first")
		assert.False(t, other.done())
	})
}

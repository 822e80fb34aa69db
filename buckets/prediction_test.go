package buckets_test

import (
	"context"
	"errors"
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

// Requests that have left the line of the global limit must not count in predictions, whether they were sent or not.
func TestPredictedWaitForTheGlobalLimitCountsThoseInLineOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1))
		for channel := range 2 {
			discover(t, m, message(channel+1), plain(200)) // limited by the global limit only
			wait(time.Second)
		}
		for _, c := range append(asks(m, message(1), 10), asks(m, message(2), 10)...) {
			for !c.done() {
				wait(time.Second)
			}
			c.update(plain(200))
		}
		wait(time.Minute)
		first := ask(m, message(1))
		asks(m, message(1), 4)
		ask(m, message(2))
		first.update(plain(200))
		assert.Equal(t, 6*time.Second, tooLong(t, patient(m, 0)).Wait.Round(time.Second),
			"a second until the next slot, and one for each of five requests in line")
	})
}

// A sub-limit holds some requests of a route. Another request, to which the sub-limit does not apply, must leave at
// once, even with a maximum wait of 0.
func TestSubLimitOfOthersIsNoWaitForOneThatWillNotWait(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, change("1").Route, channelOK)
		call(background, m, change("1", "name")).update(renamed)
		topic := call(buckets.ContextWithMaxWait(background, 0), m, change("1", "topic"))
		require.NoError(t, topic.failed())
		assert.True(t, topic.granted())
	})
}

// Because of a slow response, a request has waited longer than its maximum wait, but now it can leave. It must be
// granted, not rejected.
func TestNobodyIsRefusedAtTheMomentWhenItCouldGo(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe := ask(m, message(1))
		waiting := patient(m, time.Second)
		wait(1500 * time.Millisecond) // the response to the probe is slow, which could not be predicted
		probe.update(roomy)
		require.NoError(t, waiting.failed())
		assert.True(t, waiting.granted())
	})
}

// A longer hold makes some waits too long. Requests with such waits must be rejected at once; all other requests must
// go on waiting.
func TestWaitersAreJudgedAgainWhenAHoldIsRaised(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remaining int
		line      ratelimits.Class // class of the hold for which requests wait; ClassOK if they wait for the bucket
		throttle  time.Duration    // raises the hold
		response  ratelimits.Response
	}{
		"by a 429 of the bucket":      {1, ratelimits.ClassOK, 0, usedUp("messages", 100, time.Minute)},
		"by a global 429, in line":    {90, ratelimits.ClassGlobal, 0, refused(ratelimits.ClassGlobal, time.Minute)},
		"by a throttle, in line":      {90, ratelimits.ClassGlobal, time.Minute, roomy},
		"by the edge, in line for it": {90, ratelimits.ClassEdge, 0, refused(ratelimits.ClassEdge, time.Minute)},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 100, c.remaining, 5*time.Second))
			inFlight := ask(m, message(1))
			require.True(t, inFlight.granted())
			switch c.line {
			case ratelimits.ClassGlobal:
				m.Throttle(5 * time.Second)
			case ratelimits.ClassEdge:
				ask(m, callback(1)).update(refused(ratelimits.ClassEdge, 5*time.Second))
			}
			short, first := patient(m, 30*time.Second), ask(m, message(1))
			hasty, second := patient(m, 20*time.Second), ask(m, message(1))
			require.Equal(t, 4, m.Stats().Waiting)
			m.Throttle(c.throttle)
			inFlight.update(c.response)
			wait(0)
			for _, c := range []*caller{short, hasty} {
				err := tooLong(t, c)
				assert.Equal(t, time.Minute, err.Wait.Round(time.Second))
				assert.Less(t, err.Max, 31*time.Second)
			}
			assert.Equal(t, uint64(2), m.Stats().TooLong)
			wait(70 * time.Second)
			require.True(t, first.granted(), "the other requests wait as before")
			first.update(roomy)
			wait(2 * time.Minute)
			require.True(t, second.granted())
		})
	}
}

// A global 429 makes the wait of a request too long. The request must be rejected even if the last request of its queue
// is exempt from the global limit.
func TestWaitersBeforeOneThatIsExemptAreJudgedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute))
		as(m, "", message(1)).update(limited("messages", 50, 49, time.Minute))
		as(m, "", followUp(1)).update(limited("follow-ups", 50, 49, time.Minute))
		inFlight, one, two := as(m, "", message(1)), as(m, "", message(1)), as(m, "", followUp(1))
		one.update(errorsOf(30 * time.Second))
		two.update(errorsOf(30 * time.Second)) // now requests of both routes wait in one bucket
		waiting, exempt := as(m, "", message(1)), as(m, "", followUp(1))
		require.False(t, waiting.done())
		inFlight.update(refused(ratelimits.ClassGlobal, time.Hour))
		assert.Equal(t, ratelimits.ClassGlobal, tooLong(t, waiting).Class)
		assert.False(t, exempt.done())
		wait(31 * time.Second)
		require.True(t, exempt.granted())
	})
}

func TestWaitersAreJudgedAgainWhenTheLimitShrinks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(25*time.Second))
		discover(t, m, message(1), limited("messages", 10, 1, 10*time.Second))
		inFlight := ask(m, message(1))
		waiting := asks(m, message(1), 10)
		inFlight.update(limited("messages", 1, 0, 10*time.Second))
		for i, c := range waiting {
			assert.Equal(t, i >= 2, c.done(), "number %d", i)
		}
		wait(11 * time.Second)
		assert.True(t, waiting[0].granted())
	})
}

// Callers can use the Key of the error to space the retries of rejected requests. The keys of two errors must be equal
// if and only if their requests wait for the same limit.
func TestTooLongErrorsHaveTheSameKeyIfTheyWaitForTheSame(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 5, 0, 10*time.Second))
		refused := func(channel int, authorization string) string {
			r := buckets.Request{Route: message(channel), Authorization: authorization}
			return tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m, r)).Key
		}
		bucket := refused(1, bot)
		assert.Equal(t, bucket, refused(1, bot))
		discover(t, m, message(2), limited("messages", 5, 0, 10*time.Second))
		assert.NotEqual(t, bucket, refused(2, bot), "another channel")
		m.Throttle(time.Minute)
		global := refused(1, bot)
		assert.NotEqual(t, bucket, global)
		assert.Equal(t, global, refused(2, bot))
		assert.NotEqual(t, global, refused(3, "Bot other"), "another credential")
	})
}

func TestRequestsThatWaitForOneDeclaredLimitHaveTheSameKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithLimit(buckets.ForRoute(routes.CreateMessage), 1, time.Minute, buckets.PerMajor()))
		refused := func(channel int) string {
			discover(t, m, message(channel), limited("messages", 5, 4, 10*time.Second))
			r := *request(message(channel))
			err := tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m, r))
			assert.NotEmpty(t, err.Declared)
			assert.Contains(t, err.Key, "declared", "the request does not wait for its bucket")
			again := tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m, r))
			assert.Equal(t, err.Key, again.Key)
			return err.Key
		}
		assert.NotEqual(t, refused(1), refused(2), "another channel")
	})
}

// Many requests need the global limit, but their buckets open late. The prediction for a request that can leave earlier
// must not count the others as ahead of it.
func TestWhoOpensLaterIsNotAheadForTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour), buckets.WithGlobalLimit(5))
		opens := time.Now().Add(time.Minute)
		for i := range 100 {
			discover(t, m, message(i+1), limited("messages", 1, 0, time.Until(opens)))
			wait(200 * time.Millisecond)
		}
		wait(time.Until(opens) - 10*time.Second)
		for i := range 100 {
			require.False(t, ask(m, message(i+1)).done())
		}
		discover(t, m, message(1000), limited("messages", 1, 0, time.Second))
		predicted, _ := predict(t, m, request(message(1000)))
		assert.InDelta(t, time.Second, predicted, float64(roundings))
		c := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, *request(message(1000)))
		wait(time.Second + roundings)
		require.NoError(t, c.failed())
		require.True(t, c.granted())
	})
}

// Two requests get a 429 and come back to their places. The prediction for the second must count the first, which has
// come back earlier.
func TestPredictionOfOneThatComesBackCountsThoseAhead(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 2, 1, 5*time.Second))
		wait(6 * time.Second)
		first, second := ask(m, message(1)), ask(m, message(1))
		require.True(t, first.granted() && second.granted())
		for _, c := range []*caller{first, second} {
			c.update(usedUp("messages", 1, 5*time.Second))
		}
		first.again(m)
		predicted, _ := predict(t, m, &second.request)
		assert.InDelta(t, 10, predicted.Seconds(), 0.1)

		second.context = buckets.ContextWithMaxWait(second.context, 6*time.Second)
		second.again(m)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, second.failed(), &tooLong)
		assert.InDelta(t, 10, tooLong.Wait.Seconds(), 0.1)

		drive(t, []*caller{first})
	})
}

// patient sends a request with the maximum wait d.
func patient(m *buckets.RESTBucketManager, d time.Duration) *caller {
	return call(buckets.ContextWithMaxWait(background, d), m, *request(message(1)))
}

// tooLong requires that a caller was rejected because of its wait, and returns the error.
func tooLong(t *testing.T, c *caller) *ratelimits.TooLongError {
	t.Helper()
	var err *ratelimits.TooLongError
	require.True(t, errors.As(c.failed(), &err), "done: %v, error: %v", c.done(), c.failed())
	assert.Zero(t, c.lease)
	return err
}

func TestPredictedWaitCountsTheQueueAhead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead int
		want  time.Duration
	}{
		{0, 10 * time.Second}, {4, 10 * time.Second}, {5, 20 * time.Second}, {9, 20 * time.Second},
		{10, 30 * time.Second}, {23, 50 * time.Second},
	} {
		subtest(t, fmt.Sprintf("%d ahead", c.ahead), func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 5, 0, 10*time.Second))
			asks(m, message(1), c.ahead)
			err := tooLong(t, patient(m, 5*time.Second))
			assert.Equal(t, c.want, err.Wait.Round(time.Second))
			assert.Equal(t, "POST /channels/{channel_id}/messages", err.Route)
			assert.Equal(t, 5*time.Second, err.Max)
			assert.Equal(t, 5, err.Limit)
			assert.Equal(t, 10*time.Second, err.Period.Round(time.Second))
			assert.Equal(t, ratelimits.ClassOK, err.Class)
			assert.False(t, err.Global || err.Deadline)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, uint64(1), m.Stats().TooLong)
			assert.Equal(t, c.ahead, m.Stats().Waiting)

			assert.False(t, patient(m, c.want+time.Second).done(), "a request whose maximum is longer waits")
		})
	}
}

func TestShorterOfDeadlineAndMaxWaitCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deadline, own time.Duration
		want          time.Duration
		byDeadline    bool
	}{{time.Second, 2 * time.Second, time.Second, true}, {2 * time.Second, time.Second, time.Second, false}} {
		bubble(t, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 5, 0, 10*time.Second))
			ctx, cancel := context.WithTimeout(buckets.ContextWithMaxWait(t.Context(), c.own), c.deadline)
			defer cancel()
			err := tooLong(t, call(ctx, m, *request(message(1))))
			assert.Equal(t, c.want, err.Max)
			assert.Equal(t, c.byDeadline, errors.Is(err, context.DeadlineExceeded))
		})
	}
}

func TestRefusalDisturbsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(50))
		discover(t, m, message(1), limited("messages", 5, 0, 10*time.Second))
		var waiting []*caller
		for range 10 {
			waiting = append(waiting, ask(m, message(1)))
			tooLong(t, patient(m, time.Second))
			tooLong(t, patient(m, 0))
		}
		wait(10*time.Second + 2*time.Millisecond)
		tooLong(t, patient(m, time.Second))
		firstOpens(t, waiting, limited("messages", 5, 4, 10*time.Second))
		assert.Equal(t, 5, granted(t, waiting))
		for i, c := range waiting[1:5] {
			tooLong(t, patient(m, time.Second))
			c.update(limited("messages", 5, 3-i, 10*time.Second))
		}
		wait(10*time.Second + 2*time.Millisecond)
		assert.Equal(t, 10, granted(t, waiting))
	})
}

// One probe after the other is lost, so no wait can be predicted. A request that has waited too long must be rejected
// as soon as another probe is needed.
func TestWhoHasWaitedTooLongIsRefusedWhenAnotherProbeIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(25*time.Second))
		probe := ask(m, message(1))
		waiting := asks(m, message(1), 10)
		for range 3 {
			require.True(t, probe.granted())
			wait(9 * time.Second)
			probe.lease.Release()
			wait(0)
			probe, waiting = waiting[0], waiting[1:]
		}
		for _, c := range waiting {
			tooLong(t, c)
		}
		tooLong(t, probe)
	})
}

// A 429 makes the wait of a request too long. Wait and Max of the error must count from the arrival of the request, and
// the error's class must be that of the 429.
func TestLateRefusalTellsTheWholeWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  ratelimits.Class
		global bool
	}{{ratelimits.ClassEdge, true}, {ratelimits.ClassGlobal, true}, {ratelimits.ClassShared, false}} {
		subtest(t, c.class.String(), func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 2, 1, 4*time.Second))
			inFlight := ask(m, message(1))
			waiting := patient(m, 5*time.Second)
			require.False(t, waiting.done())
			wait(2 * time.Second)
			inFlight.update(refused(c.class, 3700*time.Millisecond))
			err := tooLong(t, waiting)
			assert.Equal(t, 5*time.Second, err.Max)
			assert.Equal(t, 2*time.Second, err.Waited)
			// The wait includes the two seconds that have passed.
			assert.InDelta(t, 5850*time.Millisecond, err.Wait, float64(200*time.Millisecond))
			assert.Greater(t, err.Wait, err.Max)
			assert.Equal(t, c.class, err.Class)
			assert.Equal(t, c.global, err.Global)
		})
	}
}

// When a request comes back to its place, or the period becomes longer, all requests behind that place have to wait
// longer than predicted. Requests whose waits become too long must be rejected.
func TestLongerWaitsAreJudgedAgain(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]func(m *buckets.RESTBucketManager, first *caller){
		"a request comes back": func(m *buckets.RESTBucketManager, first *caller) {
			first.update(usedUp("messages", 1, 6*time.Second))
			first.again(m)
		},
		"the period is longer": func(_ *buckets.RESTBucketManager, first *caller) {
			first.update(limited("messages", 1, 0, 20*time.Second))
		},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discoverPunctual(t, m, message(1), limited("messages", 1, 0, 6*time.Second))
			wait(7 * time.Second)
			first, waiting := ask(m, message(1)), patient(m, 10*time.Second)
			require.True(t, first.granted())
			require.False(t, waiting.done())
			longer(m, first)
			synctest.Wait()
			tooLong(t, waiting)
		})
	}
}

// A hold makes the wait of two requests longer, and the first is rejected. The first must no longer count as ahead of
// the second. Otherwise, the second would also be rejected.
func TestWhoIsRefusedIsAheadOfNobody(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		wait(61 * time.Second)
		inFlight := ask(m, message(1))
		require.True(t, inFlight.granted())
		impatient, more := patient(m, 70*time.Second), patient(m, 130*time.Second)
		require.False(t, impatient.done() || more.done())
		inFlight.update(inBucket(refused(ratelimits.ClassShared, 100*time.Second), "messages", 1, 0, time.Minute))
		tooLong(t, impatient)
		require.False(t, more.done(), "the second request is the first now")
		wait(101 * time.Second)
		require.True(t, more.granted())
	})
}

// The time that the Fields function takes must count as part of the wait.
func TestFieldsThatTakeLongDoNotLengthenTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(5*time.Second))
		discover(t, m, message(1), limited("messages", 1, 0, 8*time.Second))
		request := buckets.Request{Route: message(1), Authorization: bot,
			Fields: func() []string { time.Sleep(4 * time.Second); return nil }}
		_, err := m.AcquireRequest(background, &request)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, 4*time.Second, tooLong.Waited)
	})
}

// request returns a Request of bot for a route.
func request(route routes.CompiledRoute) *buckets.Request {
	return &buckets.Request{Route: route, Authorization: bot}
}

// Predict for a channel that was never seen must return the waits at the global limit and at the edge, and create no
// bucket.
func TestReadyTimeOfAChannelThatWasNeverSeen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(50))
		expect := func(want time.Duration, reason buckets.WaitsFor) {
			t.Helper()
			predicted, because := predict(t, m, request(message(7)))
			assert.InDelta(t, want, predicted, float64(time.Second))
			assert.Equal(t, reason, because)
		}
		expect(0, buckets.WaitsForNothing)
		assert.Empty(t, m.Stats().Buckets, "Predict creates no bucket")
		discover(t, m, message(1), limited("messages", 5, 4, time.Second))
		ask(m, list(9)).update(refused(ratelimits.ClassGlobal, time.Minute))
		expect(time.Minute, buckets.WaitsForGlobal)
		m.LiftHolds()
		ask(m, list(9)).update(refused(ratelimits.ClassEdge, time.Minute))
		expect(time.Minute, buckets.WaitsForEdge)
	})
}

// A declared limit must count in predictions even if the request's bucket is not known or was forgotten.
func TestReadyTimeCountsDeclaredLimitsOfForgottenBuckets(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		panics := false
		options := []buckets.Option{
			buckets.WithLimit(buckets.ForAll(), 1, time.Hour, buckets.PerMajor(), buckets.Named("d")),
			buckets.WithLimit(buckets.ForAll(), 100, time.Hour, buckets.Named("p"),
				buckets.PerKey(func(*buckets.Request) string {
					if panics {
						panic("of the caller's")
					}
					return ""
				})),
		}
		m := started(t, options...)
		c := ask(m, message(1))
		wait, because, err := m.Predict(request(list(1))) // another route, which was never seen
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, wait, float64(time.Second), "as if the request in flight were answered at once")
		assert.Equal(t, buckets.WaitsForDeclared, because)
		c.update(limited("messages", 5, 4, time.Second))
		wait, because = predict(t, m, request(message(1)))
		assert.InDelta(t, time.Hour, wait, float64(time.Second))
		assert.Equal(t, buckets.WaitsForDeclared, because)

		time.Sleep(10 * time.Minute)
		require.Zero(t, m.Stats().Buckets)
		restored := successor(t, stateOf(t, m, true), options...)
		for _, route := range []routes.CompiledRoute{message(1), list(1)} {
			wait, because = predict(t, restored, request(route))
			assert.InDelta(t, 50*time.Minute, wait, float64(time.Second))
			assert.Equal(t, buckets.WaitsForDeclared, because)
		}
		wait, because = predict(t, restored, request(message(2)))
		assert.Zero(t, wait)
		assert.Equal(t, buckets.WaitsForNothing, because)
		panics = true
		_, _, err = restored.Predict(request(message(2)))
		require.ErrorContains(t, err, `"p" panicked`)
	})
}

// A request gets a 429. The new prediction for it must not count the requests behind its place in the queue.
func TestReadyTimeOfARequestThatComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Hour))
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		wait(61 * time.Second)
		first := ask(m, message(1))
		require.True(t, first.granted())
		asks(m, message(1), 3)
		first.update(usedUp("messages", 1, time.Minute))
		back, because := predict(t, m, &first.request)
		assert.InDelta(t, time.Minute, back, float64(time.Second))
		assert.Equal(t, buckets.WaitsForWindow, because)
		behind, _ := predict(t, m, request(message(1)))
		assert.InDelta(t, 4*time.Minute, behind, float64(time.Second))
	})
}

// After RestoreState, Predict must know the windows of the restored buckets before the first request.
func TestReadyTimeOfARestoredBucket(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		both := []routes.CompiledRoute{message(1), webhookPost("token")} // the second one counts for its token
		for _, route := range both {
			discover(t, m, route, limited(route.Route().String(), 5, 0, time.Minute))
		}
		m = successor(t, stateOf(t, m, true))
		for _, route := range both {
			wait, because := predict(t, m, request(route))
			assert.InDelta(t, time.Minute, wait, float64(time.Second))
			assert.Equal(t, buckets.WaitsForWindow, because)
		}
	})
}

func TestReadyTimeOfWhatIsRefusedAnyway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := buckets.NewRESTBucketManager()
		_, _, err := m.Predict(request(message(1)))
		require.ErrorIs(t, err, buckets.ErrNotStarted)
		m = started(t)
		_, _, err = m.Predict(nil)
		require.ErrorContains(t, err, "compiled route is empty")
		m.Close()
		_, _, err = m.Predict(request(message(1)))
		require.ErrorIs(t, err, buckets.ErrClosed)
	})
}

// behindOthers returns a manager with a declared limit of five requests a second. In the line of that limit, 150
// requests wait. Their bucket allows only one request in two seconds.
func behindOthers(t *testing.T) *buckets.RESTBucketManager {
	m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithLimit(buckets.ForAll(), 5, time.Second))
	narrow, ample := limited("messages", 1, 0, 2*time.Second), limited("lists", 1_000_000, 999_999, time.Second)
	discover(t, m, message(1), narrow)
	discover(t, m, list(1), ample)
	wait(3 * time.Second)
	queueUp(m, always(list(1)), "", 5, ample, &sentLog{})
	queueUp(m, always(message(1)), "", 150, narrow, &sentLog{})
	return m
}

// Many requests are ahead in the line of a declared limit. A prediction must count only the requests whose bucket opens
// in time for them to leave first.
func TestPredictionCountsWhatCanLeave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := behindOthers(t)
		predicted, _ := predict(t, m, request(list(1)))
		start := time.Now()
		c := ask(m, list(1))
		wait(time.Minute)
		require.True(t, c.granted())
		assert.LessOrEqual(t, c.at.Sub(start), 2*time.Second)
		assert.InDelta(t, c.at.Sub(start), predicted, float64(2*time.Second))
	})
}

// Before a request leaves, the bucket of the requests ahead of it opens twice. The prediction must count both openings.
func TestPredictionCountsEachOpeningOfABucketAhead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithLimit(buckets.ForAll(), 1, time.Second))
		narrow, ample := limited("messages", 1, 0, 3*time.Second), limited("lists", 100, 90, time.Second)
		discover(t, m, message(1), narrow)
		wait(5 * time.Second)
		discover(t, m, list(1), ample)
		queueUp(m, always(message(1)), "", 5, narrow, &sentLog{})
		queueUp(m, always(list(1)), "", 3, ample, &sentLog{})
		predicted, _ := predict(t, m, request(list(1)))
		start := time.Now()
		c := ask(m, list(1))
		wait(time.Minute)
		require.True(t, c.granted())
		assert.GreaterOrEqual(t, predicted, c.at.Sub(start))
		assert.LessOrEqual(t, predicted, c.at.Sub(start)+time.Second)
	})
}

// Requests that a sub-limit holds must not count as ahead of requests to which it does not apply.
func TestWhoIsHeldByAHiddenLimitIsAheadOfNobodyElse(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]buckets.Option{
		"window": nil, "global limit": {buckets.WithGlobalLimit(2)},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t, append(options, buckets.WithMaxRateLimit(24*time.Hour))...)
			discover(t, m, change("1").Route, channelOK)
			wait(16 * time.Second)
			call(background, m, change("1", "name")).update(inBucket(refused(ratelimits.ClassSubLimit, 10*time.Minute),
				"channel", 5, 0, 5*time.Second))
			for range 100 {
				call(background, m, change("1", "name"))
			}
			topic := call(buckets.ContextWithMaxWait(background, 10*time.Second), m, change("1", "topic"))
			require.False(t, topic.done(), "%v", topic.failed())
			wait(6 * time.Second)
			require.True(t, topic.granted())
		})
	}
}

// Cancelled requests must leave the line of the global limit, so that the predictions for later requests do not count
// them.
func TestThoseWhoHaveGivenUpAreAheadOfNobodyAtTheGlobalLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1), buckets.WithMaxRateLimit(time.Hour))
		for channel := range 41 {
			discover(t, m, message(channel+1), limited("messages", 100, 99, time.Hour))
			wait(2 * time.Second)
		}
		ask(m, message(41)).update(roomy) // takes the only slot
		var all []*caller
		for channel := range 40 {
			all = append(all, ask(m, message(channel+1)), ask(m, message(channel+1)))
		}
		for _, c := range all {
			require.False(t, c.done())
			c.cancel()
		}
		wait(0)
		newcomer := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, *request(message(41)))
		require.NoError(t, newcomer.failed())
		wait(2 * time.Second)
		answer(t, newcomer, roomy)
		wait(2 * time.Second)
		require.True(t, ask(m, message(1)).granted(), "the buckets of cancelled requests can be used as before")
	})
}

// impatient sends an ordered request that waits for at most half a minute.
func impatient(m *buckets.RESTBucketManager, request buckets.Request) *caller {
	return call(buckets.ContextWithMaxWait(buckets.ContextWithOrdered(background), 30*time.Second), m, request)
}

// The first request in a queue waits for an earlier ordered request. A hold makes the wait of the first request too
// long, so the first request is rejected. The next request is not ordered. It must be granted when the hold ends,
// although the earlier ordered request is still in flight.
func TestWhoeverRefusesTheFirstWakesTheNext(t *testing.T) {
	t.Parallel()
	mine := *request(message(1))
	for _, c := range []struct {
		name   string
		refuse func(t *testing.T, m *buckets.RESTBucketManager, inFlight *caller)
	}{
		{"throttle", func(_ *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			m.Throttle(time.Minute)
			wait(0)
		}},
		{"shared 429 under another credential", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			other := as(m, "Bot two", message(1))
			answer(t, other, inBucket(refused(ratelimits.ClassShared, time.Minute), "messages", 100, 80, time.Minute))
		}},
		{"move to a bucket that is held", func(t *testing.T, m *buckets.RESTBucketManager, inFlight *caller) {
			discover(t, m, list(1),
				inBucket(refused(ratelimits.ClassShared, time.Minute), "held", 100, 80, time.Minute))
			inFlight.update(limited("held", 100, 80, time.Minute))
		}},
		{"edge", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			discover(t, m, list(2), refused(ratelimits.ClassEdge, time.Minute))
		}},
		{"global 429", func(t *testing.T, m *buckets.RESTBucketManager, _ *caller) {
			discover(t, m, list(2), refused(ratelimits.ClassGlobal, time.Minute))
		}},
	} {
		subtest(t, c.name, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discover(t, m, message(1), roomy)
			discover(t, m, list(2), limited("lists", 100, 90, time.Minute))
			inFlight, before := ask(m, message(1)), call(buckets.ContextWithOrdered(background), m, mine)
			require.True(t, inFlight.granted() && before.granted())
			first, next := impatient(m, mine), ask(m, message(1))
			require.False(t, first.done() || next.done(), "both wait for the ordered request in flight")

			c.refuse(t, m, inFlight)
			tooLong(t, first)
			wait(time.Minute + 5*time.Second)
			assert.True(t, next.granted(),
				"the ordered request is still in flight, but the next one does not need its outcome")
		})
	}
}

// predict returns the prediction for a request, and what the request would wait for.
func predict(t *testing.T, m *buckets.RESTBucketManager, r *buckets.Request) (time.Duration, buckets.WaitsFor) {
	t.Helper()
	wait, because, err := m.Predict(r)
	require.NoError(t, err)
	return wait, because
}

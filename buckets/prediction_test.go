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

// Those who have left the line, served or not, are ahead of nobody.
func TestPredictedWaitForTheGlobalLimitCountsThoseInLineOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(1))
		for channel := range 2 {
			discover(t, m, message(channel+1), plain(200)) // unlimited, but for the global limit
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
		assert.Equal(t, 6*time.Second, tooLong(t, patient(m, 0)).Wait.Round(time.Second), "until the next slot, and for five in line")
	})
}

// A request that does not want to wait goes at once if it can. The sub-limit on other requests is not in its way.
func TestSubLimitOfOthersIsNoWaitForOneThatWillNotWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, change("1").Route, channelOK)
		call(background, m, change("1", "name")).update(renamed)
		topic := call(buckets.ContextWithMaxWait(background, 0), m, change("1", "topic"))
		require.NoError(t, topic.failed())
		assert.True(t, topic.granted())
	})
}

// Who could leave at this very moment is not refused because of how long it has waited: the predicted wait is nothing.
func TestNobodyIsRefusedAtTheMomentWhenItCouldGo(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		probe := ask(m, message(1))
		waiting := patient(m, time.Second)
		wait(1500 * time.Millisecond) // the first answer takes its time, which nobody could predict
		probe.update(roomy)
		require.NoError(t, waiting.failed())
		assert.True(t, waiting.granted())
	})
}

// A hold that is raised while requests wait makes some of their waits too long.
func TestWaitersAreJudgedAgainWhenAHoldIsRaised(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remaining int
		prepare   func(m *buckets.RESTBucketManager)
		raise     func(m *buckets.RESTBucketManager, inFlight *caller)
	}{
		"by a 429 of the bucket": {
			1, func(m *buckets.RESTBucketManager) {},
			func(_ *buckets.RESTBucketManager, inFlight *caller) {
				inFlight.update(inBucket(refused(ratelimits.ClassUser, time.Minute), "messages", 100, 0, time.Minute))
			},
		},
		"by a global 429 in line for the global limit": {
			90, func(m *buckets.RESTBucketManager) { m.Throttle(5 * time.Second) },
			func(_ *buckets.RESTBucketManager, inFlight *caller) {
				inFlight.update(refused(ratelimits.ClassGlobal, time.Minute))
			},
		},
		"by a throttle in line for the global limit": {
			90, func(m *buckets.RESTBucketManager) { m.Throttle(5 * time.Second) },
			func(m *buckets.RESTBucketManager, inFlight *caller) {
				m.Throttle(time.Minute)
				inFlight.update(roomy)
			},
		},
		"by the edge in line for the edge": {
			90, func(m *buckets.RESTBucketManager) {
				ask(m, callback(1)).update(refused(ratelimits.ClassEdge, 5*time.Second))
			},
			func(_ *buckets.RESTBucketManager, inFlight *caller) {
				inFlight.update(refused(ratelimits.ClassEdge, time.Minute))
			},
		},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("messages", 100, c.remaining, 5*time.Second))
			inFlight := ask(m, message(1))
			require.True(t, inFlight.granted())
			c.prepare(m)
			short, first, hasty, second := patient(m, 30*time.Second), ask(m, message(1)), patient(m, 20*time.Second), ask(m, message(1))
			require.Equal(t, 4, m.Stats().Waiting)
			c.raise(m, inFlight)
			wait(0)
			for _, c := range []*caller{short, hasty} {
				err := tooLong(t, c)
				assert.Equal(t, time.Minute, err.Wait.Round(time.Second))
				assert.Less(t, err.Max, 31*time.Second)
			}
			assert.Equal(t, uint64(2), m.Stats().TooLong)
			wait(70 * time.Second)
			require.True(t, first.granted(), "the others wait as before")
			first.update(roomy)
			wait(2 * time.Minute)
			require.True(t, second.granted())
		})
	}
}

// When a bucket turns out to be smaller, those at the end of its queue have to wait longer than was predicted.
// The window begins when everything else is open: who finds it filled by those ahead waits for the next one.
func TestPredictedWaitBehindAWholeWindowAfterAHold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discoverPunctual(t, m, message(1), limited("messages", 5, 0, 8*time.Second))
		wait(9 * time.Second)
		m.Throttle(10 * time.Second)
		for ahead, want := range []time.Duration{10, 10, 10, 10, 10, 18, 18} {
			wait, _, err := m.Predict(request(message(1)))
			require.NoError(t, err)
			assert.Equal(t, want*time.Second, wait.Round(time.Second), "behind %d", ahead)
			require.False(t, ask(m, message(1)).done())
		}
	})
}

// Those who wait for the global limit are judged again also if the last of their queue does not wait for it.
func TestWaitersBeforeOneThatIsExemptAreJudgedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Minute))
		as(m, "", message(1)).update(limited("messages", 50, 49, time.Minute))
		as(m, "", followUp(1)).update(limited("follow-ups", 50, 49, time.Minute))
		inFlight, one, two := as(m, "", message(1)), as(m, "", message(1)), as(m, "", followUp(1))
		one.update(errorsOf(30 * time.Second))
		two.update(errorsOf(30 * time.Second)) // so that both wait in one bucket
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

// Whoever makes refused requests again later spaces them by what they wait for.
func TestTooLongErrorsHaveTheSameKeyIfTheyWaitForTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
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
			r := buckets.Request{Route: message(channel), Authorization: bot}
			err := tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m, r))
			assert.NotEmpty(t, err.Declared)
			again := tooLong(t, call(buckets.ContextWithMaxWait(background, time.Second), m, r))
			assert.Equal(t, err.Key, again.Key)
			return err.Key
		}
		assert.NotEqual(t, refused(1), refused(2), "another channel")
	})
}

// Requests of other buckets that open later than a request leaves are not ahead of it in line for the global limit,
// however many they are.
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
		predicted, _, err := m.Predict(request(message(1000)))
		require.NoError(t, err)
		assert.InDelta(t, time.Second, predicted, float64(roundings))
		c := call(buckets.ContextWithMaxWait(background, 5*time.Second), m, *request(message(1000)))
		wait(time.Second + roundings)
		require.NoError(t, c.failed())
		require.True(t, c.granted())
	})
}

// Requests that come back to their places count those that have come back before them.
func TestPredictionOfOneThatComesBackCountsThoseAhead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 2, 1, 5*time.Second))
		wait(6 * time.Second)
		first, second := ask(m, message(1)), ask(m, message(1))
		require.True(t, first.granted() && second.granted())
		for _, c := range []*caller{first, second} {
			c.update(inBucket(refused(ratelimits.ClassUser, 5*time.Second), "messages", 1, 0, 5*time.Second))
		}
		first.again(m)
		predicted, _, err := m.Predict(&second.request)
		require.NoError(t, err)
		assert.InDelta(t, 10, predicted.Seconds(), 0.1)

		second.context = buckets.ContextWithMaxWait(second.context, 6*time.Second)
		second.again(m)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, second.failed(), &tooLong)
		assert.InDelta(t, 10, tooLong.Wait.Seconds(), 0.1)

		drive(t, []*caller{first})
	})
}

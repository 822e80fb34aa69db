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
)

// patient asks with a longest wait of its own.
func patient(m *buckets.RESTBucketManager, d time.Duration) *caller {
	return call(buckets.ContextWithMaxWait(background, d), m, buckets.Request{Route: message(1), Authorization: bot})
}

// tooLong returns the error of a caller that was refused at once.
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
		{0, 10 * time.Second}, {4, 10 * time.Second}, {5, 20 * time.Second}, {9, 20 * time.Second}, {10, 30 * time.Second}, {23, 50 * time.Second},
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

			willing := patient(m, c.want+time.Second)
			assert.False(t, willing.done(), "who is willing to wait so long, waits")
		})
	}
}

// Many buckets wait in line for the global limit, with many requests each. All of them count that will go before.
func TestGlobalPaceIsPredictedWithManyInLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithGlobalLimit(10), buckets.WithMaxRateLimit(time.Hour))
		for channel := range 20 {
			discover(t, m, message(channel+1), limited("h", 1000, 999, time.Hour))
			wait(2 * time.Second)
		}
		var all []*caller
		for range 11 {
			for channel := range 20 {
				all = append(all, ask(m, message(channel+1)))
			}
		}
		ctx := buckets.ContextWithMaxWait(background, 5*time.Second)
		err := tooLong(t, call(ctx, m, buckets.Request{Route: message(1), Authorization: bot}))
		assert.InDelta(t, 22*time.Second, err.Wait, float64(2*time.Second), "220 requests at 10 per second")
	})
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
			err := tooLong(t, call(ctx, m, buckets.Request{Route: message(1), Authorization: bot}))
			assert.Equal(t, c.want, err.Max)
			assert.Equal(t, c.byDeadline, errors.Is(err, context.DeadlineExceeded))
		})
	}
}

func TestContextOverridesTheMaxRateLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(time.Second))
		discover(t, m, message(1), limited("messages", 1, 0, 10*time.Second))
		assert.Equal(t, time.Second, tooLong(t, ask(m, message(1))).Max)
		long := patient(m, time.Minute)
		assert.False(t, long.done())
		wait(11 * time.Second)
		assert.True(t, long.granted())
	})
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

// Where nothing answers, nothing can be predicted; but nobody waits much longer than it may, one lost probe after the
// other.
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

// What is said of a wait that became too long counts from when the request was made, like its maximum, and names what
// it is for.
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
			assert.InDelta(t, 5850*time.Millisecond, err.Wait, float64(200*time.Millisecond)) // two of which it has waited
			assert.Greater(t, err.Wait, err.Max)
			assert.Equal(t, c.class, err.Class)
			assert.Equal(t, c.global, err.Global)
		})
	}
}

// Whoever comes back to a place in the queue makes the wait of all behind it longer, and so does a longer period.
func TestLongerWaitsAreJudgedAgain(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]func(m *buckets.RESTBucketManager, first *caller){
		"a request comes back": func(m *buckets.RESTBucketManager, first *caller) {
			first.update(inBucket(refused(ratelimits.ClassUser, 6*time.Second), "messages", 1, 0, 6*time.Second))
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

// Whoever is refused is not ahead of those behind him any more.
func TestWhoIsRefusedIsAheadOfNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		wait(61 * time.Second)
		inFlight := ask(m, message(1))
		require.True(t, inFlight.granted())
		impatient, more := patient(m, 70*time.Second), patient(m, 130*time.Second)
		require.False(t, impatient.done() || more.done())
		inFlight.update(inBucket(refused(ratelimits.ClassShared, 100*time.Second), "messages", 1, 0, time.Minute))
		tooLong(t, impatient)
		require.False(t, more.done(), "it is the first now")
		wait(101 * time.Second)
		require.True(t, more.granted())
	})
}

// The time that a function of the caller takes counts as waiting.
func TestFieldsThatTakeLongDoNotLengthenTheWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(5*time.Second))
		discover(t, m, message(1), limited("messages", 1, 0, 8*time.Second))
		request := buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { time.Sleep(4 * time.Second); return nil }}
		_, err := m.AcquireRequest(background, &request)
		var tooLong *ratelimits.TooLongError
		require.ErrorAs(t, err, &tooLong)
		assert.Equal(t, 4*time.Second, tooLong.Waited)
	})
}

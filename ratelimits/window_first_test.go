package ratelimits_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestUnknownWindowLetsOneRequestGoAndTheRestAfterItsAnswer(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	first := b.burst(0, 1)[0]
	b.waitsForAnOutcome(time.Hour)
	assert.Zero(t, b.Limit())
	assert.Zero(t, b.Remaining(time.Hour))

	b.Report(time.Hour, first, ok(5, 4, 10*second))
	assert.Equal(t, 5, b.Limit())
	b.burst(time.Hour, 4)
}

func TestFirstAnswerSaysHowManyFollow(t *testing.T) {
	t.Parallel()
	global := ratelimits.Response{Status: 429, Class: ratelimits.ClassGlobal, RetryAfter: second, HasRetryAfter: true}
	unsaid := ratelimits.Response{Status: 429, Class: ratelimits.ClassUser}
	for name, c := range map[string]struct {
		answer ratelimits.Response
		limit  int
		follow int // at once
	}{
		"some remaining":              {ok(5, 4, 10*second), 5, 4},
		"others were there":           {ok(5, 2, 10*second), 5, 2},
		"none remaining":              {ok(5, 0, 10*second), 5, 0},
		"all remaining":               {ok(5, 5, 10*second), 5, 4}, // its own request was counted, whatever the header says
		"more than all remaining":     {ok(5, 9, 10*second), 5, 4},
		"limit of one":                {ok(1, 0, 10*second), 1, 0},
		"full again at once":          {ok(5, 4, 0), 5, 4},
		"client error with limits":    {ratelimits.Response{Status: 404, Limited: true, Limit: 5, Remaining: 4, ResetAfter: second}, 5, 4},
		"no limits":                   {bare, 0, 1},
		"broken":                      {broken, 0, 1},
		"global 429":                  {global, 0, 1}, // the hold is not the bucket's
		"429 of the bucket":           {refused(5, second), 5, 0},
		"429 that says nothing":       {unsaid, 0, 0},
		"429 of the resource":         {shared(second), 0, 0},
		"429 of the edge":             {ratelimits.Response{Status: 429, Class: ratelimits.ClassEdge}, 0, 1},
		"429 of the body's sub-limit": {ratelimits.Response{Status: 429, Class: ratelimits.ClassSubLimit, Limited: true, Limit: 5, Remaining: 3, ResetAfter: second}, 5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.Report(10*ms, b.send(0), c.answer)
			assert.Equal(t, c.limit, b.Limit())
			b.burst(10*ms, c.follow)
		})
	}
}

// hikari took the first answer for that of a sliding bucket and let the next one go earlier. Before it is proven, only
// the reset is certain.
func TestRestOfAFirstWindowWaitsUntilItIsCertainlyFull(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, ok(3, 1, 4*second))
	b.exchange(0, ok(3, 0, 4*second))
	b.closedUntil(0, 4*second+rounding)
	b.burst(4*second+rounding, 3)
}

// Whatever the first answer was, and were it none, more requests follow some day.
func TestNoFirstOutcomeStopsTheBucket(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]func(b *bucket, p ratelimits.Permit){
		"lost":             func(b *bucket, p ratelimits.Permit) { b.Lost(10*ms, p) },
		"given back":       func(b *bucket, p ratelimits.Permit) { b.Return(10*ms, p) },
		"broken":           func(b *bucket, p ratelimits.Permit) { b.Report(10*ms, p, broken) },
		"no limits":        func(b *bucket, p ratelimits.Permit) { b.Report(10*ms, p, bare) },
		"reset-after of 0": func(b *bucket, p ratelimits.Permit) { b.Report(10*ms, p, ok(5, 0, 0)) },
		"429, unsaid": func(b *bucket, p ratelimits.Permit) {
			b.Report(10*ms, p, ratelimits.Response{Status: 429, Class: ratelimits.ClassUser})
		},
		"429, wait of 0":    func(b *bucket, p ratelimits.Permit) { b.Report(10*ms, p, refused(5, 0)) },
		"shared, wait of 0": func(b *bucket, p ratelimits.Permit) { b.Report(10*ms, p, shared(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			outcome(b, b.send(0))
			at, certain := b.Next(10 * ms)
			require.True(t, certain)
			assert.LessOrEqual(t, at, 3*second)
			b.Report(at, b.send(at), ok(5, 4, 10*second))
			b.burst(at, 4)
		})
	}
}

// A 429 that asks for no wait at all must not become an endless loop.
func TestRefusalIsNeverRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]ratelimits.Response{
		"wait of 0":  refused(5, 0),
		"shared, 0":  shared(0),
		"no wait":    {Status: 429, Class: ratelimits.ClassUser},
		"shared, no": {Status: 429, Class: ratelimits.ClassShared},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.exchange(0, answer)
			at, certain := b.Next(0)
			assert.True(t, certain)
			assert.GreaterOrEqual(t, at, rounding)
		})
	}
}

func TestUnlimitedWindowLetsEverythingGo(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, bare)
	b.Unlimit()
	assert.True(t, b.Unlimited())
	assert.Zero(t, b.Limit())
	for _, p := range b.many(0, 500)[:400] {
		b.Report(second, p, bare)
	}
	b.many(second, 100)
}

func TestUnlimitedWindowEndsWithTheFirstAnswerThatCarriesALimit(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Unlimit()
	permits := b.many(0, 4)
	b.Report(100*ms, permits[0], ok(10, 9, 10*second))
	assert.False(t, b.Unlimited())
	assert.Equal(t, 10, b.Limit())
	b.burst(100*ms, 6) // three are on their way and may have been processed later
}

func TestWindowWhoseLimitIsKnownIsNotUnlimitedByAnybody(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	b.Unlimit()
	assert.False(t, b.Unlimited())
	b.burst(0, 4)
}

// What is only recalled is not known.
func TestRecalledWindowWhoseResponsesCarryNoLimitsIsUnlimited(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Recall(2, 10*second)
	b.exchange(0, bare)
	b.Unlimit()
	assert.True(t, b.Unlimited())
	b.many(0, 10)
}

func TestHoldAlsoHoldsAnUnlimitedWindow(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Unlimit()
	b.exchange(0, shared(2*second))
	b.closedUntil(0, 2*second+rounding)
	b.Report(2*second+rounding, b.burst(2*second+rounding, 1)[0], bare)
	b.many(2*second+rounding, 50)
}

// Successes carry no scope, and most carry a fraction.
func TestHeadersOfASuccessReachTheBucket(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	h.Set("X-RateLimit-Bucket", "abcd1234")
	h.Set("X-RateLimit-Limit", "5")
	h.Set("X-RateLimit-Remaining", "2")
	h.Set("X-RateLimit-Reset-After", "1.25")
	b := newBucket(t)
	b.exchange(0, ratelimits.ParseResponse(200, h, nil))
	b.left(0, 2)
	b.burst(0, 2)
	b.closedUntil(0, 1250*ms+rounding)
}

func TestRecalledWindowIsReplacedByWhatTheFirstResponseSays(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{5: 4, 50: 49, 1: 0} {
		var w ratelimits.Window
		w.Recall(5, 10*second)
		first, ok1 := w.Take(0)
		require.True(t, ok1)
		_, more := w.Take(0)
		require.False(t, more, "one goes first")
		w.Report(10*ms, first, ok(limit, limit-1, second))
		assert.Equal(t, limit, w.Limit())
		assert.Equal(t, want, w.Remaining(10*ms))
		assert.LessOrEqual(t, w.Period(), second)
	}
}

func TestRecalledWindowIsNotExceededWhenNobodySaysAnything(t *testing.T) {
	t.Parallel()
	var w ratelimits.Window
	w.Recall(2, 10*second)
	for range 2 {
		p, ok := w.Take(0)
		require.True(t, ok)
		w.Report(0, p, ratelimits.Response{Status: 200})
	}
	_, more := w.Take(9 * second)
	assert.False(t, more)
	_, more = w.Take(11 * second)
	assert.True(t, more)
}

// Two routes of one bucket, both in use when the first response names it: the other request is charged here as it may
// belong here, and once more before that charge is taken off, when it does. The first response has counted both.
func TestRequestInFlightAtTheFirstResponseIsNotTakenForSomebodyElses(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	first, maybe := b.Adopt(0, 0), b.Adopt(0, 0)
	b.Report(100*ms, first, ok(5, 3, 10*second))
	followers := b.burst(100*ms, 2)
	b.Report(110*ms, followers[1], ok(5, 1, 10*second))
	b.Report(120*ms, followers[0], ok(5, 2, 10*second))
	b.Report(130*ms, b.Adopt(130*ms, 0), ok(5, 4, 10*second))
	b.Return(130*ms, maybe)
	b.left(130*ms, 1)
}

// An answer without limits that came before other requests were sent is in their count, if it was counted, also where
// it is told later.
func TestAnswerWithoutLimitsIsInTheCountOfWhatWasSentLater(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(100*ms, b.Adopt(0, 0), ok(5, 3, 10*second))
	followers := b.burst(100*ms, 3)
	b.ReportReceived(110*ms, 90*ms, b.Adopt(110*ms, 0), bare)
	b.Report(120*ms, followers[2], ok(5, 0, 10*second))
	b.Report(130*ms, followers[1], ok(5, 1, 10*second))
	b.Report(140*ms, followers[0], ok(5, 2, 10*second))
	b.closedUntil(140*ms, 10*second+100*ms+rounding)

	b = newBucket(t)
	b.Report(100*ms, b.Adopt(0, 0), ok(5, 4, 10*second))
	followers = b.many(100*ms, 3)
	b.ReportReceived(110*ms, 90*ms, b.Adopt(110*ms, 0), bare)
	b.Report(120*ms, followers[2], ok(5, 1, 10*second))
	b.Report(130*ms, followers[1], ok(5, 2, 10*second))
	b.Report(140*ms, followers[0], ok(5, 3, 10*second))
	b.left(140*ms, 1)
}

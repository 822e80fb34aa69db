package ratelimits_test

import (
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
	missing := ok(5, 4, second)
	missing.Status = 404
	subLimit := ok(5, 3, second)
	subLimit.Status, subLimit.Class = 429, ratelimits.ClassSubLimit
	for name, c := range map[string]struct {
		answer ratelimits.Response
		limit  int
		follow int // requests that may be sent at once
	}{
		"some remaining":           {ok(5, 4, 10*second), 5, 4},
		"used by other clients":    {ok(5, 2, 10*second), 5, 2},
		"none remaining":           {ok(5, 0, 10*second), 5, 0},
		"all remaining":            {ok(5, 5, 10*second), 5, 4}, // this request was counted, whatever the header says
		"more than all remaining":  {ok(5, 9, 10*second), 5, 4},
		"limit of one":             {ok(1, 0, 10*second), 1, 0},
		"full again at once":       {ok(5, 4, 0), 5, 4},
		"client error with limits": {missing, 5, 4},
		"no limits":                {bare, 0, 1},
		"broken":                   {broken, 0, 1},
		"global 429":               {global, 0, 1}, // such a 429 does not hold the bucket
		"429 of the bucket":        {refused(5, second), 5, 0},
		"429 without a wait":       {unsaid, 0, 0},
		"shared 429":               {shared(second), 0, 0},
		"429 of the edge":          {ratelimits.Response{Status: 429, Class: ratelimits.ClassEdge}, 0, 1},
		"429 of a sub-limit":       {subLimit, 5, 3},
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

// Whatever the first outcome was, more requests must follow within seconds. But after a 429, even if it asks for no
// wait, they must not follow at once.
func TestNoFirstOutcomeStopsTheBucket(t *testing.T) {
	t.Parallel()
	follow := func(t *testing.T, b *bucket, atLeast time.Duration) {
		at, certain := b.Next(10 * ms)
		require.True(t, certain)
		assert.GreaterOrEqual(t, at, 10*ms+atLeast)
		assert.LessOrEqual(t, at, 3*second)
		b.Report(at, b.send(at), ok(5, 4, 10*second))
		b.burst(at, 4)
	}
	for name, outcome := range withoutLimits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			outcome(b, 10*ms, b.send(0))
			follow(t, b, 0)
		})
	}
	for name, c := range map[string]struct {
		answer  ratelimits.Response
		atLeast time.Duration
	}{
		"reset-after of 0":       {ok(5, 0, 0), 0},
		"429 without a wait":     {ratelimits.Response{Status: 429, Class: ratelimits.ClassUser}, rounding},
		"429, wait of 0":         {refused(5, 0), rounding},
		"shared, without a wait": {ratelimits.Response{Status: 429, Class: ratelimits.ClassShared}, rounding},
		"shared, wait of 0":      {shared(0), rounding},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBucket(t)
			b.Report(10*ms, b.send(0), c.answer)
			follow(t, b, c.atLeast)
		})
	}
}

func TestUnlimitedWindowLetsEverythingGoUntilAnAnswerCarriesALimit(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.exchange(0, bare)
	b.Unlimit()
	assert.True(t, b.Unlimited())
	assert.Zero(t, b.Limit())
	for _, p := range b.many(0, 500) {
		b.Report(second, p, bare)
	}
	permits := b.many(2*second, 4)
	b.Report(2100*ms, permits[0], ok(10, 9, 10*second))
	assert.False(t, b.Unlimited())
	assert.Equal(t, 10, b.Limit())
	b.burst(2100*ms, 6) // three requests are in flight, and the server may process them later
}

func TestOnlyAWindowWhoseLimitIsNotKnownIsUnlimited(t *testing.T) {
	t.Parallel()
	b := known(t, 5, second)
	b.Unlimit()
	assert.False(t, b.Unlimited())
	b.burst(0, 4)

	recalled := newBucket(t) // a recalled limit counts as unknown
	recalled.Recall(2, 10*second)
	recalled.exchange(0, bare)
	recalled.Unlimit()
	assert.True(t, recalled.Unlimited())
	recalled.many(0, 10)
}

func TestRecalledWindowIsReplacedByWhatTheFirstResponseSays(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{5: 4, 50: 49, 1: 0} {
		b := newBucket(t)
		b.Recall(5, 10*second)
		b.Report(10*ms, b.burst(0, 1)[0], ok(limit, limit-1, second))
		assert.Equal(t, limit, b.Limit())
		b.left(10*ms, want)
		assert.LessOrEqual(t, b.Period(), second)
	}
}

// Two routes share a bucket, and each has a request in flight. The first response names the bucket, and counts both
// requests. The second request is adopted because it may belong to this bucket. When this turns out to be true, it is
// adopted again before the first permit is given back. The second request must not be taken for a request of another
// client.
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

// A request got an answer without limits, and then other requests were sent. If the server has counted the first
// request, the responses to the others also count it. This must also work if the first answer is reported only after
// the other requests were sent.
func TestAnswerWithoutLimitsIsInTheCountOfWhatWasSentLater(t *testing.T) {
	t.Parallel()
	for _, left := range []int{3, 4} {
		b := newBucket(t)
		b.Report(100*ms, b.Adopt(0, 0), ok(5, left, 10*second))
		followers := b.many(100*ms, 3)
		b.ReportReceived(110*ms, 90*ms, b.Adopt(110*ms, 0), bare)
		for i := 2; i >= 0; i-- {
			b.Report(120*ms, followers[i], ok(5, left-1-i, 10*second))
		}
		b.left(140*ms, left-3)
	}
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// declared returns a bucket with a new window of a declared limit. Responses say nothing about the state of that limit.
func declared(t *testing.T, limit int, period time.Duration) *bucket {
	b := &bucket{t: t}
	b.Declare(limit, period)
	return b
}

// overAt sends a request at each of the given times. Each request is answered at once.
func (b *bucket) overAt(at ...time.Duration) {
	b.t.Helper()
	for _, now := range at {
		b.exchange(now, bare)
	}
}

func TestDeclaredLimitGoesOnFromAState(t *testing.T) {
	t.Parallel()
	b := declared(t, 3, 10*second)
	b.overAt(second)
	other := from(t, 100*second, b.State(2*second))
	require.True(t, other.Declared())
	other.burst(100*second, 2)

	other = from(t, 100*second, b.State(2*second))
	other.overAt(100*second, 100*second)
	other.closedUntil(100*second, 109*second)
}

func TestRefusedRequestDoesNotCountInADeclaredLimit(t *testing.T) {
	t.Parallel()
	b := declared(t, 2, time.Minute)
	b.exchange(0, shared(second))
	b.burst(0, 2)
}

// The outcome of a request teaches nothing about a declared limit. So no request is sent first, neither after a hold
// nor because of the window's earlier state.
func TestNothingGoesFirstAfterTheHoldOfADeclaredLimit(t *testing.T) {
	t.Parallel()
	b := declared(t, 3, time.Minute)
	b.Hold(0, second)
	b.closedUntil(0, second)
	b.burst(second, 3)

	b = &bucket{t: t}
	b.Hold(1, second)
	b.Declare(5, time.Minute)
	b.written().burst(2*second, 5)
}

func TestWhatAnotherWindowKnowsOfADeclaredLimitIsCharged(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		here, there []time.Duration // when requests were sent and answered
		until       time.Duration
		room        []int // how many requests may be sent after 10, 55, 65 and 71 s
	}{
		"nothing here":        {nil, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"as much here":        {[]time.Duration{0, 5 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"more here":           {[]time.Duration{0, 5 * s, 6 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{1, 1, 3, 4}},
		"others come earlier": {[]time.Duration{5 * s}, []time.Duration{0, 5 * s}, 100 * s, []int{2, 2, 4, 4}},
		"they end earlier":    {nil, []time.Duration{0, 5 * s}, 50 * s, []int{2, 4, 4, 4}},
		"by another clock":    {nil, []time.Duration{1000 * s, 1005 * s}, 2000 * s, []int{2, 2, 2, 4}},
		"the others are over": {nil, []time.Duration{0, 5 * s}, 9 * s, []int{4, 4, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, at := range []time.Duration{10 * s, 55 * s, 65*s + ms, 71 * s} {
				b, other := declared(t, 4, 60*s), declared(t, 4, 60*s)
				b.overAt(c.here...)
				other.overAt(c.there...)
				b.Remember(10*s, &other.Window, c.until)
				b.Return(10*s, b.Adopt(10*s, 10*s)) // must not remove a charge
				b.burst(at, c.room[i])
			}
		})
	}
	t.Run("some charges of the other window have expired", func(t *testing.T) {
		t.Parallel()
		b, other := declared(t, 5, 60*s), declared(t, 5, 60*s)
		other.overAt(0, s, 50*s)
		b.overAt(50 * s)
		b.Remember(70*s, &other.Window, time.Hour)
		b.burst(70*s, 4)
	})
}

// Declare must bring the limit and the period into their allowed ranges: the limit is at least one.
func TestDeclaredLimitIsAtLeastOne(t *testing.T) {
	t.Parallel()
	b := declared(t, 0, 0)
	assert.Equal(t, 1, b.Limit())
	assert.Equal(t, ms, b.Period())
	b.burst(0, 1)
	assert.Equal(t, 100_000_000, declared(t, 1<<40, ratelimits.LongestTrust+1).Limit())
	assert.Equal(t, ratelimits.LongestTrust, declared(t, 1, ratelimits.LongestTrust+1).Period())
}

// Outcomes may be reported late and out of order. The server may have counted a slow request late, so the request stays
// charged for longer. But the slow request must not keep other requests charged.
func TestSlowRequestKeepsNoOthersCharged(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Minute
	var w ratelimits.Window
	w.Declare(1002, period)
	take := func(now time.Duration) ratelimits.Permit {
		p, granted := w.Take(now)
		require.True(t, granted)
		return p
	}
	slow := take(0)
	var quick []ratelimits.Permit
	for i := range time.Duration(1000) {
		quick = append(quick, take(i*ms))
	}
	w.Report(59*second, take(59*second), bare)
	for i, p := range quick {
		w.ReportReceived(60*second, time.Duration(i)*ms, p, bare)
	}
	w.ReportReceived(60*second, 30*second, slow, bare)
	assert.Equal(t, 1000, w.Remaining(period+3*second))
}

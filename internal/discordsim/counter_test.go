package discordsim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawQuota(t *rapid.T) Quota {
	limit := rapid.IntRange(1, 7).Draw(t, "limit")
	period := time.Duration(rapid.IntRange(10, 3000).Draw(t, "period")) * ms
	phase := time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "phase")) * ms
	quota := rapid.SampledFrom([]Quota{
		Fixed(limit, period), Aligned(limit, period, phase), Sliding(limit, period), SlidingNext(limit, period),
		Leaky(limit, period),
		Lagging(limit, period), Extending(limit, period, time.Duration(rapid.IntRange(1, 3000).Draw(t, "extend"))*ms),
	}).Draw(t, "quota")
	return drawLateness(t, quota)
}

// drawLateness makes a quota late in half of the cases.
func drawLateness(t *rapid.T, quota Quota) Quota {
	most := 2 * int(quota.Period/ms)
	if quota.Aligned {
		most = (most - 1) / 4
	}
	if rapid.Bool().Draw(t, "punctual") {
		most = 0
	}
	by := time.Duration(rapid.IntRange(0, most).Draw(t, "late")) * ms
	return quota.Late(by, time.Duration(rapid.IntRange(0, most).Draw(t, "random"))*ms)
}

// try is one attempt to take a place.
type try struct {
	at time.Time
	ok bool
}

// drawSchedule tries to take places at random moments. Some of these moments are exactly those at which the counter's
// state changes.
func drawSchedule(t *rapid.T, counter Counter, foreigners bool) (tries []try) {
	now := start
	for range rapid.IntRange(1, 80).Draw(t, "attempts") {
		state := counter.State(now)
		step := rapid.SampledFrom([]time.Duration{
			0, 1, ms, 20 * ms, state.RetryAfter, max(state.RetryAfter-1, 0), state.ResetAfter, state.NextAfter, 700 * ms,
		}).Draw(t, "step")
		now = now.Add(step)
		who := Own
		if foreigners && rapid.Bool().Draw(t, "foreign") {
			who = Foreign
		}
		tries = append(tries, try{now, counter.Take(now, who)})
	}
	return tries
}

// replay returns a new counter after all attempts of a schedule, each of them by an Own request.
func replay(quota Quota, tries []try) Counter {
	counter := newCounter(quota)
	for _, a := range tries {
		counter.Take(a.at, Own)
	}
	return counter
}

// With any schedule, no counter may accept more requests than its limit in any window or interval.
func TestNoCounterAcceptsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t).punctual()
		var times []time.Time
		for _, a := range drawSchedule(t, newCounter(quota), true) {
			if a.ok {
				times = append(times, a.at)
			}
		}
		// window counts the accepted requests in the period that begins at from.
		window := func(from time.Time) (n int) {
			for _, m := range times {
				if !m.Before(from) && m.Before(from.Add(quota.Period)) {
					n++
				}
			}
			return n
		}
		for i, from := range times {
			switch {
			case quota.Kind == KindLeaky:
				for j := i; j < len(times); j++ {
					require.LessOrEqual(t, j-i+1, quota.Limit+int(times[j].Sub(from)/quota.interval()))
				}
			case quota.Aligned:
				require.LessOrEqual(t, window(quota.windowEnd(from).Add(-quota.Period)), quota.Limit)
			case quota.Kind == KindSliding || i == 0: // of all intervals, one that begins with a request has the most requests
				require.LessOrEqual(t, window(from), quota.Limit)
			}
		}
	})
}

// The times of a state must be exact, and asking for a state must not change it.
func TestStatesAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := drawQuota(t)
		counter := newCounter(quota)
		tries := drawSchedule(t, counter, false)
		now := tries[len(tries)-1].at
		state := counter.State(now)
		require.Equal(t, state, counter.State(now))
		require.Equal(t, state.Remaining > 0, state.RetryAfter == 0)
		require.True(t, replay(quota, tries).Take(now.Add(state.RetryAfter), Own), "accepted exactly at RetryAfter")
		if state.Remaining == 0 {
			require.False(t, replay(quota, tries).Take(now.Add(state.RetryAfter-1), Own), "refused one nanosecond earlier")
		}
		remaining := func(after time.Duration) int { return replay(quota, tries).State(now.Add(after)).Remaining }
		require.Equal(t, quota.Limit, remaining(state.ResetAfter))
		if state.Remaining < quota.Limit {
			require.Less(t, remaining(state.ResetAfter-1), quota.Limit)
			require.Greater(t, remaining(state.NextAfter), state.Remaining)
			require.Equal(t, state.Remaining, remaining(state.NextAfter-1))
		}
	})
}

func TestOwnRequestsAreToldFromForeignOnes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counter := newCounter(drawQuota(t))
		drawSchedule(t, counter, true)
		require.LessOrEqual(t, counter.OwnUsed(start.Add(time.Hour)), 0, "all places become free")
	})
	for _, quota := range []Quota{Fixed(3, time.Second), Sliding(3, time.Second), Leaky(3, time.Second)} {
		counter := newCounter(quota)
		counter.Take(start, Own)
		counter.Take(start, Foreign)
		counter.Take(start, Own)
		assert.False(t, counter.Take(start, Own))
		assert.Equal(t, 2, counter.OwnUsed(start), "%v", quota.Kind)
	}
}

func TestCountersByHand(t *testing.T) {
	t.Parallel()
	fill := func(quota Quota, times ...time.Duration) Counter {
		counter := newCounter(quota)
		for _, d := range times {
			require.True(t, counter.Take(at(d), Own))
		}
		return counter
	}
	tests := []struct {
		name    string
		counter Counter
		now     time.Duration
		want    State
	}{
		{"fixed, closed", fill(Fixed(2, time.Second)), 0, State{Limit: 2, Remaining: 2}},
		{"fixed, open", fill(Fixed(2, time.Second), 100*ms), 300 * ms,
			State{Limit: 2, Remaining: 1, ResetAfter: 800 * ms, NextAfter: 800 * ms}},
		{"fixed, full", fill(Fixed(2, time.Second), 100*ms, 200*ms), 300 * ms,
			State{Limit: 2, ResetAfter: 800 * ms, NextAfter: 800 * ms, RetryAfter: 800 * ms}},
		{"extending, without a refusal", fill(Extending(2, time.Second, 5*time.Second), 100*ms, 200*ms), 300 * ms,
			State{Limit: 2, ResetAfter: 800 * ms, NextAfter: 800 * ms, RetryAfter: 800 * ms}},
		{"aligned, empty", fill(Aligned(2, time.Second, 250*ms)), 300 * ms,
			State{Limit: 2, Remaining: 2, ResetAfter: 950 * ms, NextAfter: 950 * ms}},
		{"sliding, full", fill(Sliding(2, time.Second), 100*ms, 200*ms), 300 * ms,
			State{Limit: 2, ResetAfter: 900 * ms, NextAfter: 800 * ms, RetryAfter: 800 * ms}},
		{"leaky, full", fill(Leaky(2, time.Second), 100*ms, 200*ms), 300 * ms,
			State{Limit: 2, ResetAfter: 800 * ms, NextAfter: 300 * ms, RetryAfter: 300 * ms}},
		{"leaky, a place is partly free", fill(Leaky(2, time.Second), 0), 100 * ms,
			State{Limit: 2, Remaining: 1, ResetAfter: 400 * ms, NextAfter: 400 * ms}},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, test.counter.State(at(test.now)), test.name)
	}
}

func TestEachRefusalExtendsABlock(t *testing.T) {
	t.Parallel()
	counter := newCounter(Extending(2, time.Second, 3*time.Second))
	for range 2 {
		require.True(t, counter.Take(start, Own))
	}
	require.False(t, counter.Take(at(500*ms), Own))
	assert.Equal(t, 3500*ms, counter.State(at(500*ms)).RetryAfter, "the rest of the window and three seconds")
	assert.Equal(t, 2, counter.OwnUsed(at(999*ms)))
	require.False(t, counter.Take(at(3999*ms), Foreign))
	assert.Equal(t, 3001*ms, counter.State(at(3999*ms)).RetryAfter)
	assert.Zero(t, counter.OwnUsed(at(time.Second)), "when the period is over, only refusals keep the window open")
	require.True(t, counter.Take(at(7*time.Second), Own))
	assert.Equal(t, State{Limit: 2, Remaining: 1, ResetAfter: time.Second, NextAfter: time.Second},
		counter.State(at(7*time.Second)), "a new window has its usual length")
}

func TestResizeKeepsWhatIsCounted(t *testing.T) {
	t.Parallel()
	kinds := []Quota{Fixed(5, time.Second), Sliding(5, time.Second), Leaky(5, time.Second)}
	for _, from := range kinds {
		for _, to := range kinds {
			to.Limit = 3
			counter := newCounter(from)
			for range 4 {
				counter.Take(start, Own)
			}
			smaller := resized(counter, start, to, draws{})
			assert.Zero(t, smaller.State(start).Remaining, "%v to %v", from.Kind, to.Kind)
			assert.Positive(t, smaller.State(start).RetryAfter)
			assert.GreaterOrEqual(t, smaller.OwnUsed(start), 3)
			assert.Equal(t, 3, smaller.State(at(time.Hour)).Remaining)
		}
	}
}

func TestNonsenseQuotasAreRefused(t *testing.T) {
	t.Parallel()
	for _, quota := range []Quota{
		{Kind: KindLeaky, Limit: 1, Period: 1, NamesNext: true}, Extending(1, time.Second, -1),
		{Kind: KindSliding, Limit: 1, Period: 1, Extend: 1},
		{Kind: KindFixed, Limit: 1, Period: 1, Aligned: true, Extend: 1},
		Fixed(0, time.Second), Fixed(-1, time.Second), Sliding(1, 0), Leaky(1, -time.Second), {Limit: 5, Period: time.Second},
		{Kind: 17, Limit: 1, Period: 1}, {Kind: KindLeaky, Limit: 1, Period: 1, Aligned: true}, Leaky(1000, 10),
	} {
		_, err := NewCounter(quota)
		assert.ErrorIs(t, err, ErrConfig, "%+v", quota)
	}
	_, err := NewCounter(Unlimited())
	assert.ErrorIs(t, err, ErrConfig)
}

func TestLeakyBucketIsNeverFasterThanItsQuota(t *testing.T) {
	t.Parallel()
	for limit := 1; limit < 100; limit++ {
		assert.GreaterOrEqual(t, Leaky(limit, time.Second).interval()*time.Duration(limit), time.Second)
	}
}

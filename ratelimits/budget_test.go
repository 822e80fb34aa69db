package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestBudgetCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := ratelimits.NewBudget(3, time.Minute)
	for range 3 {
		ok, _ := b.Take(0)
		require.True(t, ok)
	}
	ok, wait := b.Take(0)
	assert.False(t, ok, "the answers of all three may be invalid")
	assert.Zero(t, wait, "only an outcome can tell")
	b.Report(0, false)
	ok, _ = b.Take(0)
	assert.True(t, ok)
	b.Return()
	ok, _ = b.Take(0)
	assert.True(t, ok)
	assert.Equal(t, 3, b.InFlight())
}

func TestBudgetComesBackByItself(t *testing.T) {
	t.Parallel()
	b := ratelimits.NewBudget(2, time.Minute)
	for _, at := range []time.Duration{30 * time.Second, 50 * time.Second} {
		ok, _ := b.Take(at)
		require.True(t, ok)
		b.Report(at, true)
	}
	ok, wait := b.Take(55 * time.Second)
	require.False(t, ok)
	assert.GreaterOrEqual(t, wait, 35*time.Second, "a period after the first")
	assert.LessOrEqual(t, wait, 37*time.Second)
	ok, _ = b.Take(55*time.Second + wait - time.Nanosecond)
	assert.False(t, ok)
	ok, _ = b.Take(55*time.Second + wait)
	assert.True(t, ok)
	assert.Equal(t, 1, b.Used(55*time.Second+wait))
	assert.Zero(t, b.Used(time.Hour))
}

func TestBudgetWithoutALimitBoundsNothing(t *testing.T) {
	t.Parallel()
	for _, b := range []*ratelimits.Budget{ratelimits.NewBudget(0, time.Minute), ratelimits.NewBudget(-1, time.Minute), ratelimits.NewBudget(5, 0)} {
		for range 100 {
			ok, _ := b.Take(0)
			require.True(t, ok)
			b.Report(0, true)
		}
		assert.Zero(t, b.Used(0))
		assert.Zero(t, b.Limit())
	}
}

// Whatever the phase of the server's period, it never sees more invalid responses than the budget, whatever was in flight.
func TestNoPeriodSeesMoreInvalidResponsesThanTheBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		period := time.Duration(rapid.IntRange(1, 700).Draw(t, "seconds")) * time.Second
		b := ratelimits.NewBudget(limit, period)
		var now time.Duration
		var invalid []time.Duration
		flying := 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(period)/5).Draw(t, "pause"))
			if rapid.Bool().Draw(t, "send") {
				if ok, _ := b.Take(now); ok {
					flying++
				}
			} else if flying > 0 {
				flying--
				bad := rapid.Bool().Draw(t, "invalid")
				b.Report(now, bad)
				if bad {
					invalid = append(invalid, now)
				}
			}
			require.Equal(t, flying, b.InFlight())
		}
		for i := range invalid {
			within := 0
			for _, at := range invalid[i:] {
				if at < invalid[i]+period {
					within++
				}
			}
			require.LessOrEqual(t, within, limit)
		}
	})
}

func TestInvalidResponses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		response ratelimits.Response
		want     bool
	}{
		{ratelimits.Response{Status: 200}, false},
		{ratelimits.Response{Status: 401}, true},
		{ratelimits.Response{Status: 403}, true},
		{ratelimits.Response{Status: 404}, false},
		{ratelimits.Response{Status: 500}, false},
		{ratelimits.Response{Status: 429, Class: ratelimits.ClassUser}, true},
		{ratelimits.Response{Status: 429, Class: ratelimits.ClassSubLimit}, true},
		{ratelimits.Response{Status: 429, Class: ratelimits.ClassGlobal}, true},
		{ratelimits.Response{Status: 429, Class: ratelimits.ClassEdge}, true},
		{ratelimits.Response{Status: 429, Class: ratelimits.ClassShared}, false},
		{ratelimits.Response{}, false},
	} {
		assert.Equal(t, c.want, c.response.Invalid(), "%+v", c.response)
	}
}

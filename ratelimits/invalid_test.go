package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

func TestInvalidResponsesComeBackAfterAPeriod(t *testing.T) {
	t.Parallel()
	c := ratelimits.NewInvalidCounter(time.Minute)
	assert.Zero(t, c.ComesBack(0))
	c.Add(30*time.Second, 1)
	c.Add(50*time.Second, 2)
	const now = 55 * time.Second
	assert.Equal(t, 3, c.Used(now))
	wait := c.ComesBack(now)
	assert.GreaterOrEqual(t, wait, 35*time.Second, "until a period after the first response")
	assert.LessOrEqual(t, wait, 36*time.Second)
	assert.Equal(t, 3, c.Used(now+wait-1))
	assert.Equal(t, 2, c.Used(now+wait))
	assert.Zero(t, c.Used(time.Hour))
	assert.Zero(t, c.ComesBack(time.Hour))
}

// An invalid response must be counted for at least a period, and for at most a sixtieth of the period longer.
func TestInvalidResponsesAreCountedForAPeriod(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		period := time.Duration(rapid.IntRange(1, 700).Draw(t, "seconds")) * time.Second
		c := ratelimits.NewInvalidCounter(period)
		var now time.Duration
		var invalid []time.Duration
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(period)/5).Draw(t, "pause"))
			if rapid.Bool().Draw(t, "invalid") {
				c.Add(now, 1)
				invalid = append(invalid, now)
			}
			least, most := 0, 0
			for _, at := range invalid {
				if now < at+period {
					least++
				}
				if now <= at+period+period/60 {
					most++
				}
			}
			require.GreaterOrEqual(t, c.Used(now), least)
			require.LessOrEqual(t, c.Used(now), most)
			sum := 0
			for age, n := range c.Counts(now) {
				require.LessOrEqual(t, age, period+period/60)
				sum += n
			}
			require.Equal(t, c.Used(now), sum)
		}
	})
}

func TestInvalidResponsesAreLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	before, now := ratelimits.NewInvalidCounter(ratelimits.DefaultInvalidPeriod), 72*time.Hour
	for range 10 {
		before.Add(now, 1)
		now += 30 * time.Second
	}
	next, later := ratelimits.NewInvalidCounter(ratelimits.DefaultInvalidPeriod), 80*time.Hour
	for age, n := range before.Counts(now) {
		next.Add(later-age, n)
	}
	for range 25 {
		assert.InDelta(t, before.Used(now), next.Used(later), 1)
		now, later = now+30*time.Second, later+30*time.Second
	}
	assert.Zero(t, next.Used(later))
	next.Add(later, 1<<62)
	assert.Positive(t, next.Used(later))
	assert.Zero(t, next.Used(later+time.Hour))
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

func TestInvalidResponsesOfTheShortestPeriodAreCounted(t *testing.T) {
	t.Parallel()
	c := ratelimits.NewInvalidCounter(1)
	c.Add(time.Hour, 1)
	assert.Equal(t, 1, c.Used(time.Hour))
	assert.Zero(t, c.Used(time.Hour+time.Millisecond))
}

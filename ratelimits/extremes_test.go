package ratelimits_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

var (
	extremeTimes   = []time.Duration{math.MinInt64, -1, 0, 1, 5 * second, math.MaxInt64 - 1, math.MaxInt64}
	extremeNumbers = []int{math.MinInt, -1, 0, 1, 5, 1 << 31, 1 << 33, math.MaxInt - 1, math.MaxInt}
)

// extremeResponse draws a response that a caller might make without ParseResponse: each field has any value,
// independently of the other fields.
func extremeResponse(t *rapid.T) ratelimits.Response {
	times, numbers := rapid.SampledFrom(extremeTimes), rapid.SampledFrom(extremeNumbers)
	return ratelimits.Response{
		Status:        rapid.SampledFrom([]int{200, 200, 429, 429, 0, 404, 500, -1, math.MaxInt}).Draw(t, "status"),
		Class:         ratelimits.Class(rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 5, 6, 255}).Draw(t, "class")),
		Limited:       rapid.Bool().Draw(t, "limited"),
		HasRetryAfter: rapid.Bool().Draw(t, "has retry-after"),
		Code:          numbers.Draw(t, "code"),
		Bucket:        rapid.SampledFrom([]string{"", "b"}).Draw(t, "bucket"),
		Limit:         numbers.Draw(t, "limit"),
		Remaining:     numbers.Draw(t, "remaining"),
		ResetAfter:    times.Draw(t, "reset-after"),
		ResetRounding: times.Draw(t, "rounding"),
		RetryAfter:    times.Draw(t, "retry-after"),
		Stamp:         int64(numbers.Draw(t, "stamp")),
	}
}

func TestA429AsksForADayAtMost(t *testing.T) {
	t.Parallel()
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared, ratelimits.ClassGlobal} {
		r := ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: math.MaxInt64}
		assert.Equal(t, 24*time.Hour, r.AskedWait(), "%v", class)
		r = ratelimits.Response{Status: 429, Class: class, HasRetryAfter: true, RetryAfter: math.MinInt64}
		assert.Equal(t, time.Millisecond, r.AskedWait(), "%v", class)
		r = ratelimits.Response{Status: 429, Class: class}
		assert.Equal(t, time.Second, r.AskedWait(), "%v names no time", class)
	}
	for _, class := range []ratelimits.Class{ratelimits.ClassUser, ratelimits.ClassShared} {
		r := ratelimits.Response{Status: 429, Class: class, Limited: true, Limit: 5, ResetAfter: math.MaxInt64}
		assert.Equal(t, 24*time.Hour, r.AskedWait(), "the reset of %v", class)
	}
}

// Whatever the fields of responses contain, the waits of the window must be bounded, and the window must open again.
func TestResponsesWithFieldsAtTheirExtremesStopNoWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w ratelimits.Window
		switch rapid.IntRange(0, 3).Draw(t, "origin") {
		case 1:
			w.Declare(rapid.SampledFrom(extremeNumbers).Draw(t, "limit"), rapid.SampledFrom(extremeTimes).Draw(t, "period"))
		case 2:
			w.Recall(rapid.SampledFrom(extremeNumbers).Draw(t, "limit"), rapid.SampledFrom(extremeTimes).Draw(t, "period"))
		case 3:
			w = ratelimits.NewWindow(0, ratelimits.State{
				Limit: rapid.SampledFrom(extremeNumbers).Draw(t, "limit"), Used: rapid.SampledFrom(extremeNumbers).Draw(t, "used"),
				Reset: rapid.SampledFrom(extremeTimes).Draw(t, "reset"), Period: rapid.SampledFrom(extremeTimes).Draw(t, "period"),
				Hold: rapid.SampledFrom(extremeTimes).Draw(t, "hold"), Probing: rapid.Bool().Draw(t, "probing"),
			})
		}
		now := second
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			r := extremeResponse(t)
			now += second
			asked := r.AskedWait()
			require.True(t, 0 < asked && asked <= ratelimits.LongestTrust, "%v", asked)
			p, ok := ratelimits.Permit{}, false
			if rapid.Bool().Draw(t, "take") {
				p, ok = w.Take(now)
			}
			if !ok {
				p = w.Adopt(now, rapid.SampledFrom(extremeTimes).Draw(t, "sent"))
			}
			w.Report(now+100*ms, p, r)
			now += second
			soon(t, now, w.HoldWait(now), w.Predict(now, 0), w.Reset()-now, w.Needed()-now)
			require.GreaterOrEqual(t, w.Predict(now, math.MaxInt), time.Duration(0))
			require.GreaterOrEqual(t, w.Remaining(now), 0)
			_, _, err := ratelimits.DecodeWindow(w.Append(nil))
			require.NoError(t, err)
		}
		for range 200 { // no request is in flight, so Next must always name a time
			at, ok := w.Next(now)
			require.True(t, ok)
			if at <= now {
				return
			}
			soon(t, now, at-now)
			now = at
		}
		t.Fatal("the window does not open")
	})
}

// soon asserts that waits are bounded. The bound of these waits is high, because hidden limits are remembered for
// several periods.
func soon(t require.TestingT, now time.Duration, waits ...time.Duration) {
	for i, wait := range waits {
		require.LessOrEqual(t, wait, 1000*ratelimits.LongestTrust, fmt.Sprint(i))
		require.GreaterOrEqual(t, wait, -now, fmt.Sprint(i))
	}
}

// Whatever times another process has written, the window must open within a day after Resume.
func TestResumedWindowWaitsForADayAtMost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w ratelimits.Window
		if rapid.Bool().Draw(t, "declared") {
			w.Declare(rapid.IntRange(1, 3).Draw(t, "limit"), ratelimits.LongestTrust)
		}
		now := second
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			now += second
			r := extremeResponse(t)
			r.Limit, r.Remaining = rapid.IntRange(1, 3).Draw(t, "limit"), 0
			p := w.Adopt(now, now)
			if rapid.Bool().Draw(t, "answered") {
				w.Report(now, p, r)
			}
		}
		early, late := rapid.SampledFrom(extremeTimes[2:5]).Draw(t, "early"), rapid.IntRange(5, 48*3600).Draw(t, "late")
		w.Shift(early, time.Duration(late)*time.Second)
		w, _, err := ratelimits.DecodeWindow(w.Append(nil))
		require.NoError(t, err)
		end := now + ratelimits.LongestTrust + time.Millisecond
		w.Resume(now, rapid.Bool().Draw(t, "exact"))
		require.LessOrEqual(t, w.Reset(), end)
		require.LessOrEqual(t, now+w.Predict(now, 0), end)
		for {
			at, ok := w.Next(now)
			require.True(t, ok)
			require.LessOrEqual(t, at, end)
			if at <= now {
				return
			}
			now = at
		}
	})
}

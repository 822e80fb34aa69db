package ratelimits

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// resetAlone is the header of a server that sends no Reset-After.
func resetAlone(reset string, more ...string) http.Header {
	return header(append([]string{"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", reset}, more...)...)
}

func TestResetAloneIsComparedWithTheDateOfTheSameResponse(t *testing.T) {
	t.Parallel()
	const date = "Tue, 02 Aug 2016 21:23:43 GMT" // 1470173023
	for name, c := range map[string]struct {
		header          http.Header
		after, rounding time.Duration
		absent          bool
	}{
		"decimals":         {header: resetAlone("1470173028.250", "Date", date), after: 5250 * ms, rounding: time.Second},
		"whole seconds":    {header: resetAlone("1470173028", "Date", date), after: 6 * time.Second, rounding: 3 * time.Second},
		"an hour":          {header: resetAlone("1470176623", "Date", date), after: time.Hour + time.Second, rounding: 3 * time.Second},
		"over":             {header: resetAlone("1470173020.5", "Date", date), rounding: time.Second},
		"Reset-After":      {header: resetAlone("1470173028.250", "Date", date, "X-RateLimit-Reset-After", "2.5"), after: 2500 * ms},
		"other case":       {header: http.Header{"x-ratelimit-limit": {"5"}, "x-ratelimit-remaining": {"3"}, "x-ratelimit-reset": {"1470173028.25"}, "date": {date}}, after: 5250 * ms, rounding: time.Second},
		"without Date":     {header: resetAlone("1470173028.250"), absent: true},
		"Date is garbage":  {header: resetAlone("1470173028.250", "Date", "now"), absent: true},
		"Reset is garbage": {header: resetAlone("soon", "Date", date), absent: true},
		"seconds to wait":  {header: resetAlone("5", "Date", date), absent: true},
		"milliseconds":     {header: resetAlone("1470173028250", "Date", date), absent: true},
		"beyond a week":    {header: resetAlone("1470777824.5", "Date", date), absent: true},
		"bad Reset-After":  {header: resetAlone("1470173028.250", "Date", date, "X-RateLimit-Reset-After", "NaN"), absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Response{Status: 200, Limited: true, Limit: 5, Remaining: 3, ResetAfter: c.after, ResetRounding: c.rounding}
			if c.absent {
				want = Response{Status: 200}
			}
			assert.Equal(t, want, ParseResponse(200, c.header, nil))
		})
	}
}

func TestComparingResetWithDateDoesNotAllocate(t *testing.T) {
	h := resetAlone("1470173028.250", "Date", "Tue, 02 Aug 2016 21:23:43 GMT")
	require.True(t, ParseResponse(200, h, nil).Limited)
	require.Zero(t, testing.AllocsPerRun(100, func() { ParseResponse(200, h, nil) }))
}

// dropResetAfter makes a server say its resets by its own clock, whatever the phase of that, and in whole seconds or
// not.
func dropResetAfter(t *rapid.T) func(*Stage) {
	skew := time.Duration(rapid.IntRange(0, 999).Draw(t, "skew")) * ms
	whole := rapid.SampledFrom([]time.Duration{0, 0, 1, time.Second}).Draw(t, "whole seconds")
	return func(s *Stage) {
		s.spoil = func(processed time.Time, header http.Header) {
			if header.Get("X-RateLimit-Reset") == "" {
				return
			}
			header.Set("Date", processed.Add(skew).UTC().Format(http.TimeFormat))
			reset := time.UnixMilli(ParseStamp(header)).Add(skew)
			if whole > 0 { // cut, or raised
				reset = reset.Add(whole - 1).Truncate(time.Second)
			}
			header.Set("X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(reset.UnixMilli())/1000))
			header.Del("X-RateLimit-Reset-After")
		}
	}
}

// TestNoScheduleWithResetsAloneDrawsAnAvoidableRefusal plays random loads on a server that sends Reset and Date only.
func TestNoScheduleWithResetsAloneDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		play(t, &Window{}, dropResetAfter(t)).check()
	})
}

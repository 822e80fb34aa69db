package ratelimits

import (
	"net/http"
	"time"
)

// dateRounding is how much too early a Date may be, because its fraction of a second is cut off.
const dateRounding = time.Second

// untilReset returns the longest time that can lie between a Date and a Reset of the same clock. rounding says by how
// much this time may be too long. A Reset in whole seconds may have been rounded down or up.
func untilReset(reset, date string) (after, rounding time.Duration, ok bool) {
	stamp := parseStamp(reset)
	from, ok := parseDate(date)
	ms := stamp - from.UnixMilli()
	if !ok || stamp == 0 || max(ms, -ms) > longestSensible.Milliseconds() {
		return 0, 0, false
	}
	after, rounding = time.Duration(ms)*time.Millisecond, dateRounding
	if stamp%1000 == 0 {
		after, rounding = after+time.Second, rounding+2*time.Second
	}
	return max(after, 0), rounding, true
}

// untilDate returns the longest time that can lie between a Date and another date of the same clock. Both dates have
// whole seconds.
func untilDate(until, date string) (wait time.Duration, ok bool) {
	to, okTo := parseDate(until)
	from, okFrom := parseDate(date)
	if !okTo || !okFrom {
		return 0, false
	}
	return max(min(to.Sub(from), longest-dateRounding)+dateRounding, 0), true
}

// parseDate reads an HTTP date. ok is false if there is none.
func parseDate(text string) (time.Time, bool) {
	if text == "" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(text)
	return date, err == nil
}

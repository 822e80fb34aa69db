package ratelimits

import (
	"net/http"
	"time"
)

// dateRounding is by how much a Date may lie before the moment that it means, as it is cut to whole seconds.
const dateRounding = time.Second

// parseDate reads an HTTP date, such as the server's own clock in Date.
func parseDate(text string) (time.Time, bool) {
	if text == "" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(text)
	return date, err == nil
}

package ratelimits

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The server's clock, and three seconds later.
const date, soon = "Tue, 02 Aug 2016 21:23:43 GMT", "Tue, 02 Aug 2016 21:23:46 GMT"

// retryDate is the header of a server that names the time of the next attempt by its own clock.
func retryDate(until string, more ...string) http.Header {
	return header(append([]string{"Retry-After", until, "Date", date}, more...)...)
}

// Both dates are cut to whole seconds, so the wait that is meant may be up to a second longer than their difference.
func TestRetryAfterAsADateIsComparedWithTheDateOfTheSameResponse(t *testing.T) {
	t.Parallel()
	full := []string{
		"X-RateLimit-Limit", "5", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset-After", "2.1", "X-RateLimit-Bucket", "b",
		"X-RateLimit-Scope", "user",
	}
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		wait   time.Duration
		absent bool
		class  Class
	}{
		"429": {status: 429, header: retryDate(soon), body: "{}", wait: 4 * time.Second, class: ClassEdge},
		"edge": {
			status: 429, header: retryDate("Tue, 02 Aug 2016 21:24:03 GMT", "Content-Type", "text/html"),
			body: "<html>", wait: 21 * time.Second, class: ClassEdge,
		},
		"older form": {
			status: 429, header: retryDate("Tuesday, 02-Aug-16 21:23:46 GMT"), wait: 4 * time.Second, class: ClassEdge,
		},
		"error": {status: 503, header: retryDate(soon), wait: 4 * time.Second},
		"this second": {
			status: 429, header: retryDate("Tue, 02 Aug 2016 21:23:43 GMT"), wait: time.Second, class: ClassEdge,
		},
		"over": {status: 429, header: retryDate("Tue, 02 Aug 2016 21:00:00 GMT"), class: ClassEdge},
		"far": {
			status: 429, header: retryDate("Tue, 02 Aug 2416 21:00:00 GMT"), wait: longest, class: ClassEdge,
		},
		"long over": {status: 429, header: retryDate("Tue, 02 Aug 1016 21:00:00 GMT"), class: ClassEdge},
		"other case": {
			status: 429, header: http.Header{"retry-after": {soon}, "date": {date}}, wait: 4 * time.Second, class: ClassEdge,
		},
		"precise body": {
			status: 429, header: retryDate(soon), body: `{"retry_after":2.25}`, wait: 2250 * time.Millisecond, class: ClassUser,
		},
		"shorter body": {
			status: 429, header: retryDate(soon), body: `{"retry_after":1}`, wait: 4 * time.Second, class: ClassUser,
		},
		"bucket is full": {
			status: 429, header: retryDate(soon, full...),
			body: `{"retry_after":2.1}`, wait: 2100 * time.Millisecond, class: ClassUser,
		},
		"full, no body": {status: 429, header: retryDate(soon, full...), wait: 4 * time.Second, class: ClassUser},
		"without Date":  {status: 429, header: header("Retry-After", soon), absent: true, class: ClassEdge},
		"bad Date": {
			status: 429, header: header("Retry-After", soon, "Date", "now"), absent: true, class: ClassEdge,
		},
		"garbage":  {status: 429, header: retryDate("soon"), absent: true, class: ClassEdge},
		"negative": {status: 429, header: retryDate("-3"), absent: true, class: ClassEdge},
		"success":  {status: 200, header: retryDate(soon), absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ParseResponse(c.status, c.header, []byte(c.body))
			assert.Equal(t, c.wait, r.RetryAfter)
			assert.Equal(t, !c.absent, r.HasRetryAfter)
			assert.Equal(t, c.class, r.Class)
		})
	}
}

package dialects

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// secondaryWait is how long to wait after a refusal by a secondary limit if the refusal names no time (as GitHub's
// documentation says).
const secondaryWait = time.Minute

// GitHub is the dialect of GitHub's REST API. X-RateLimit-Resource names the bucket. The time until the reset is
// X-RateLimit-Reset minus Date. The clock of this computer is used only if a response has no valid Date.
//
// A 429 is a refusal. In the cases below, a 403 is also a refusal. There are three kinds of refusals:
//   - If the response has a Retry-After, a secondary limit has refused the request. All requests of the credential wait
//     for that time.
//   - Otherwise, if X-RateLimit-Remaining is 0, the requests of the bucket wait until the reset. A 403 is such a
//     refusal only if its message names a rate limit or is empty.
//   - Otherwise, a 429, or a 403 whose message names a rate limit, is a refusal by a secondary limit that names no
//     time. All requests of the credential wait for a minute, and for longer after several such refusals in a row.
//
// Any other 403 is no refusal.
//
// GitHub does not announce secondary limits, so the first refusal by each of them cannot be avoided. GraphQL refuses
// requests with the status 200, which is not recognized. This package counts a 304 to a conditional request like any
// other response, although GitHub does not count it. Therefore a client that sends thousands of conditional requests in
// an hour waits for the reset, although it need not.
func GitHub(status int, header http.Header, body []byte) ratelimits.Response {
	if _, err := http.ParseTime(header.Get("Date")); err != nil && len(header) > 0 {
		header = header.Clone()
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat)) // RFC 9110 requires this of a recipient
	}
	r := ratelimits.ParseResponse(status, header, nil)
	r.Class, r.Bucket, r.Stamp = ratelimits.ClassOK, header.Get("X-RateLimit-Resource"), ratelimits.ParseStamp(header)
	if status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return r
	}
	var object struct{ Message string }
	_ = json.Unmarshal(body, &object) // a malformed body has no message
	message := strings.ToLower(object.Message)
	isAboutLimits := strings.Contains(message, "rate limit") || strings.Contains(message, "abuse detection")
	switch {
	case r.HasRetryAfter:
		refuse(&r, ratelimits.ClassGlobal)
	case strings.TrimSpace(header.Get("X-RateLimit-Remaining")) == "0":
		if isAboutLimits || message == "" || status == http.StatusTooManyRequests {
			refuse(&r, ratelimits.ClassUser)
		}
	case isAboutLimits || status == http.StatusTooManyRequests:
		r.RetryAfter, r.HasRetryAfter = secondaryWait, true
		refuse(&r, ratelimits.ClassGlobal)
	}
	return r
}

// refuse makes r a refusal of the class. If r has no Retry-After, the refusal lasts until the limit resets.
func refuse(r *ratelimits.Response, class ratelimits.Class) {
	r.Class = class
	if !r.HasRetryAfter && r.Limited {
		r.RetryAfter, r.HasRetryAfter = r.ResetAfter, true
	}
}

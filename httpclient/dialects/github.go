package dialects

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// secondaryWait is the wait after a refusal by a secondary limit that names no time (GitHub's documentation).
const secondaryWait = time.Minute

// GitHub is the dialect of GitHub's REST API. X-RateLimit-Resource names the bucket of a credential. The time until the
// reset is X-RateLimit-Reset minus Date, so that the clock of this computer matters only if a response has no valid
// Date.
//
// A 429, and a 403 in some cases, is a refusal. If it has a Retry-After, it comes from a secondary limit, and holds all
// requests of the credential for that time. Otherwise, if its X-RateLimit-Remaining is 0, it holds its bucket until the
// reset, except a 403 whose message is about something else. In all other cases, a 429, or a 403 whose message names a
// rate limit, comes from a secondary limit that names no time. It holds all requests of the credential for a minute,
// and for longer if there are several in a row. Any other 403 is a response like all others.
//
// Secondary limits are not announced, so the first refusal of each cannot be avoided. GraphQL refuses with status 200,
// which is not recognized. A 304 to a conditional request counts like any other response, although GitHub does not
// count it. So a client that sends thousands of such requests in an hour waits for the reset.
func GitHub(status int, header http.Header, body []byte) ratelimits.Response {
	if _, err := http.ParseTime(header.Get("Date")); err != nil && len(header) > 0 {
		header = header.Clone()
		header.Set("Date", time.Now().UTC().Format(http.TimeFormat)) // as RFC 9110 requires of a recipient
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

// refuse makes r a refusal of the class. Without a Retry-After it lasts until the limit resets.
func refuse(r *ratelimits.Response, class ratelimits.Class) {
	r.Class = class
	if !r.HasRetryAfter && r.Limited {
		r.RetryAfter, r.HasRetryAfter = r.ResetAfter, true
	}
}

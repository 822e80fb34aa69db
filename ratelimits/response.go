package ratelimits

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The canonical forms under which net/http stores Discord's header names.
const (
	headerBucket     = "X-Ratelimit-Bucket"
	headerLimit      = "X-Ratelimit-Limit"
	headerRemaining  = "X-Ratelimit-Remaining"
	headerResetAfter = "X-Ratelimit-Reset-After"
	headerReset      = "X-Ratelimit-Reset"
	headerDate       = "Date"
	headerGlobal     = "X-Ratelimit-Global"
	headerScope      = "X-Ratelimit-Scope"
	headerRetryAfter = "Retry-After"
	headerVia        = "Via"
	headerType       = "Content-Type"
)

// Response is what one HTTP response says about rate limits. A field whose header is absent or invalid (NaN, a negative
// or blank number) has the zero value. A Response is cheap to copy.
type Response struct {
	// Status is the HTTP status code.
	Status int
	// Class is ClassOK unless a limit has refused the request. Discord says so with the status 429, and only with that.
	Class Class
	// Limited reports whether Limit, Remaining and ResetAfter were all present and valid: a limit from 1 to a billion,
	// a reset within a week. Otherwise these fields are zero. If a server sends no Reset-After, the time from its own
	// Date to its Reset counts as ResetAfter.
	Limited bool
	// HasRetryAfter reports whether RetryAfter was present, as a number of seconds, or as a date in a response with a
	// Date. Discord sends it with a 429, seldom with a 202 or a 503. In successes other than 202 it is ignored.
	HasRetryAfter bool
	// Code is Discord's error code in a 429's body, 0 if there was none.
	Code int
	// Bucket is the bucket hash, without the major parameter; empty if absent.
	Bucket string
	// Limit is the number of requests per window, at least 1.
	Limit int
	// Remaining is the number of requests that are left, from 0 to Limit.
	Remaining int
	// ResetAfter is the time until the bucket resets, counted from the server's answer.
	ResetAfter time.Duration
	// ResetRounding is by how much ResetAfter may be too long because it was computed from times in whole seconds. It
	// is 0 if the server has named ResetAfter itself.
	ResetRounding time.Duration
	// RetryAfter is the time to wait before the next attempt, counted from the server's answer. It is the precise value
	// of the body, unless body and header contradict each other.
	RetryAfter time.Duration
	// Stamp is when the window ends by Discord's clock, in Unix milliseconds, 0 if absent. It identifies the window:
	// compare it only with other stamps of the same bucket. Only limits that are shared between processes need it;
	// ParseResponse does not set it, ParseStamp reads it.
	Stamp int64
}

// Clip returns the response with every field in the range that ParseResponse guarantees. Use it for a response that you
// have not parsed with ParseResponse. A limit outside 1 to a billion counts as absent, and a negative time as zero. A
// time that is too long is reduced, so that sums do not overflow.
func (r Response) Clip() Response {
	r.clip()
	return r
}

// clip is Clip without a copy, because copies are slow. It writes only fields that are out of range, which is almost
// never the case.
func (r *Response) clip() {
	if r.Class >= NumClasses {
		r.Class = ClassUser
	}
	if r.Limited && (r.Limit < 1 || r.Limit > largestSensible) {
		r.Limited = false
	}
	if !r.Limited {
		if r.Limit != 0 || r.Remaining != 0 || r.ResetAfter != 0 || r.ResetRounding != 0 {
			r.Limit, r.Remaining, r.ResetAfter, r.ResetRounding = 0, 0, 0, 0
		}
	} else if r.Remaining < 0 || r.Remaining > r.Limit {
		r.Remaining = min(max(r.Remaining, 0), r.Limit)
	}
	clipTime(&r.ResetAfter, longestSensible)
	clipTime(&r.ResetRounding, longestSensible)
	clipTime(&r.RetryAfter, longest)
}

func clipTime(d *time.Duration, most time.Duration) {
	if *d < 0 || *d > most {
		*d = min(max(*d, 0), most)
	}
}

// ParseStamp returns the Stamp of a Response, or 0 if it is absent or invalid.
func ParseStamp(header http.Header) int64 {
	return parseStamp(first(header[headerReset]))
}

func parseStamp(text string) int64 {
	f, _ := parseDecimal(text)
	if f > math.MaxInt32*1000 {
		return 0
	}
	return int64(math.Round(f * 1000))
}

// Invalid reports whether Discord counts the response against its limit of invalid requests: 401, 403, and 429 except
// ClassShared (Discord's documentation).
func (r *Response) Invalid() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	return r.Class.Invalid()
}

// ParseResponse reads what an HTTP response says about rate limits. It reads the body of a 429 only, so pass nil for
// all other responses. It never fails: what cannot be parsed counts as absent. It does not keep body, and allocates
// nothing unless the status is 429. Header names are compared without regard to case, also in a header that was not
// built by net/http.
func ParseResponse(status int, header http.Header, body []byte) Response {
	var f fields
	f.read(header, status)
	r := Response{Status: status, Bucket: f.bucket}
	if mayAskToWait(status) {
		f.parseRetryAfter(&r)
	}
	f.parseLimit(&r)
	if status != http.StatusTooManyRequests {
		return r
	}
	refusal := parseRefusal(body)
	if refusal.hasRetryAfter && (!r.HasRetryAfter || f.bodyCounts(&r, refusal.retryAfter)) {
		r.RetryAfter, r.HasRetryAfter = refusal.retryAfter, true
	}
	r.Code = refusal.code
	r.Class = classify(&f, &refusal, r.Limited && (r.Remaining > 0 || r.RetryAfter > r.ResetAfter+f.retryRounding+tick))
	return r
}

// secondRounding bounds by how much a number of seconds in Retry-After is too long, because it is rounded up. A bucket
// that resets more than that before the wait is over cannot have caused the 429.
const secondRounding = time.Second

// bodyCounts reports whether the wait of a 429 is the body's retry_after rather than the Retry-After header, which is
// in r. Discord's header is the body's value rounded up to a second (or two, if it is a date). Or the header is the
// time until the whole bucket resets, while the body says when the next request may be sent. So a body that is shorter
// in one of these ways is precise. A body that is longer by at most a second is precise, too, because other servers
// round the header down. All other differences are contradictions. Then the longer value is used, unless the body is in
// milliseconds or the server is not Discord, which always names a scope.
func (f *fields) bodyCounts(r *Response, body time.Duration) bool {
	header, rounding := r.RetryAfter, f.retryRounding
	switch {
	case header > longestSensible || body > longestSensible:
		return body < header
	case body > header+secondRounding+tick:
		milliseconds := body / 1000
		return strings.TrimSpace(f.scope) != "" && (header < milliseconds-tick || header > milliseconds+rounding+tick)
	}
	return header-body < rounding || r.Limited && header < r.ResetAfter+rounding+tick
}

// classify returns the class of a 429. The order matters: a scope is Discord's own statement, so the edge is considered
// only without one. Without a scope a 429 is never ClassSubLimit, because servers that send no scope may ask for a
// longer wait with each 429, which would look like a hidden limit.
func classify(fields *fields, refusal *refusal, hasRoom bool) Class {
	scope := strings.TrimSpace(fields.scope)
	switch {
	case strings.EqualFold(strings.TrimSpace(fields.global), "true"), strings.EqualFold(scope, "global"), refusal.global:
		return ClassGlobal
	case strings.EqualFold(scope, "shared"):
		return ClassShared
	case scope == "" && fields.bucket == "" && fromEdge(fields, refusal):
		return ClassEdge
	case hasRoom && strings.EqualFold(scope, "user"):
		return ClassSubLimit
	}
	return ClassUser
}

// fromEdge reports whether a 429 comes from Cloudflare (an HTML page, or a static JSON without retry_after) and not
// from Discord. Via alone proves nothing, because proxies remove it and add it; it decides only if there is no body.
func fromEdge(fields *fields, refusal *refusal) bool {
	switch {
	case strings.Contains(strings.ToLower(fields.contentType), "html"):
		return true
	case refusal.empty:
		return fields.via == ""
	}
	return !refusal.hasRetryAfter
}

// fields are the raw values of the headers that matter here, "" if absent.
type fields struct {
	bucket, limit, remaining, resetAfter, retryAfter string
	reset                                            string // only if there is a limit and no resetAfter
	date                                             string // only if there is a reset or a retryAfter
	global, scope, via, contentType                  string // read from a 429 only

	retryRounding time.Duration // how much too long retryAfter may be; set by parseRetryAfter
}

// mayAskToWait reports whether a response with the status may have a Retry-After. Most responses are successes: for
// them the look-up would be wasted, because an absent header costs as much as a present one.
func mayAskToWait(status int) bool {
	return status < http.StatusOK || status >= http.StatusMultipleChoices || status == http.StatusAccepted
}

func (f *fields) read(header http.Header, status int) {
	f.bucket = first(header[headerBucket])
	f.limit = first(header[headerLimit])
	f.remaining = first(header[headerRemaining])
	f.resetAfter = first(header[headerResetAfter])
	if mayAskToWait(status) {
		f.retryAfter = first(header[headerRetryAfter])
	}
	if status == http.StatusTooManyRequests {
		f.global = first(header[headerGlobal])
		f.scope = first(header[headerScope])
		f.via = first(header[headerVia])
		f.contentType = first(header[headerType])
	}
	if f.limit != "" && f.resetAfter == "" {
		f.reset = first(header[headerReset])
	}
	if f.reset != "" || f.retryAfter != "" {
		f.date = first(header[headerDate])
	}
	if f.bucket == "" && f.limit == "" {
		f.readOtherCases(header)
	}
}

// readOtherCases looks for names that are not in canonical form, as in a header written as a literal.
func (f *fields) readOtherCases(header http.Header) {
	for name, values := range header {
		if value := f.named(name); value != nil && *value == "" {
			*value = first(values)
		}
	}
	if f.limit == "" || f.resetAfter != "" {
		f.reset = ""
	}
	if f.reset == "" && f.retryAfter == "" {
		f.date = ""
	}
}

// named returns the field for a header name in any case, nil if the name does not matter.
func (f *fields) named(name string) *string {
	canonical, value := "", (*string)(nil)
	switch len(name) {
	case len(headerBucket): // this name is as long as headerGlobal
		canonical, value = headerBucket, &f.bucket
		if strings.EqualFold(name, headerGlobal) {
			return &f.global
		}
	case len(headerLimit): // this name is as long as headerScope and headerReset
		canonical, value = headerLimit, &f.limit
		switch {
		case strings.EqualFold(name, headerScope):
			return &f.scope
		case strings.EqualFold(name, headerReset):
			return &f.reset
		}
	case len(headerDate):
		canonical, value = headerDate, &f.date
	case len(headerRemaining):
		canonical, value = headerRemaining, &f.remaining
	case len(headerResetAfter):
		canonical, value = headerResetAfter, &f.resetAfter
	case len(headerRetryAfter):
		canonical, value = headerRetryAfter, &f.retryAfter
	case len(headerVia):
		canonical, value = headerVia, &f.via
	case len(headerType):
		canonical, value = headerType, &f.contentType
	}
	if value == nil || !strings.EqualFold(name, canonical) {
		return nil
	}
	return value
}

// parseRetryAfter reads the wait that the headers ask for: a number of seconds, or the date of the next attempt.
func (f *fields) parseRetryAfter(r *Response) {
	f.retryRounding = secondRounding
	if r.RetryAfter, r.HasRetryAfter = parseSeconds(f.retryAfter); !r.HasRetryAfter && f.date != "" {
		f.retryRounding = 2 * dateRounding
		r.RetryAfter, r.HasRetryAfter = untilDate(f.retryAfter, f.date)
	}
}

// parseLimit reads the headers of the limit, if all are present and valid.
func (f *fields) parseLimit(r *Response) {
	limit, okLimit := parseCount(f.limit)
	remaining, okRemaining := parseCount(f.remaining)
	resetAfter, okReset := parseSeconds(f.resetAfter)
	rounding := time.Duration(0)
	if f.reset != "" && f.resetAfter == "" {
		resetAfter, rounding, okReset = untilReset(f.reset, f.date)
	}
	if okLimit && okRemaining && okReset && limit >= 1 && limit <= largestSensible && resetAfter <= longestSensible {
		r.Limited = true
		r.Limit = limit
		r.Remaining = min(remaining, limit)
		r.ResetAfter, r.ResetRounding = resetAfter, rounding
	}
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// parseCount reads a number of requests. Discord's numbers are decimal text, so "5" and "5.0" are the same.
func parseCount(text string) (int, bool) {
	const most = 18 // digits that fit into an int64
	n := int64(0)
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 || i >= most {
			return parseOddCount(text)
		}
		n = 10*n + int64(digit)
	}
	return int(n), text != "" && n <= math.MaxInt32
}

func parseOddCount(text string) (int, bool) {
	f, ok := parseDecimal(text)
	if !ok || f > math.MaxInt32 {
		return 0, false
	}
	return int(f), true
}

// longestSensible bounds a reset-after that makes sense. Discord's windows are seconds to hours long; some resources
// have limits of a day or two.
const longestSensible = 7 * 24 * time.Hour

// largestSensible bounds a limit that makes sense; such limits can be added and doubled. The largest limit seen is
// 50,000.
const largestSensible = 1_000_000_000

// longest bounds all durations. It is far above every sensible wait, and sums of such durations do not overflow.
const longest = 100 * 365 * 24 * time.Hour

// parseSeconds reads a number of seconds with decimals.
func parseSeconds(text string) (time.Duration, bool) {
	if d, ok := parseFixed(text); ok {
		return d, true
	}
	f, ok := parseDecimal(text)
	if !ok {
		return 0, false
	}
	return seconds(f), true
}

// parseFixed reads what Discord sends: digits, with or without a point between them. It takes a third of the time of
// ParseFloat.
func parseFixed(text string) (time.Duration, bool) {
	const most = 9 // digits before the point, and after it
	n, unit := time.Duration(0), time.Duration(0)
	for i := range len(text) {
		digit := time.Duration(text[i] - '0')
		switch {
		case text[i] == '.' && unit == 0 && 0 < i && i <= most:
			unit = time.Second
		case digit > 9 || unit == 1 || unit == 0 && i >= most:
			return 0, false
		default:
			n, unit = 10*n+digit, unit/10
		}
	}
	if unit == 0 {
		unit = time.Second
	}
	return n * unit, text != ""
}

func seconds(f float64) time.Duration {
	if f >= longest.Seconds() {
		return longest
	}
	return time.Duration(math.Round(f * float64(time.Second)))
}

// parseDecimal reads a finite number that is not negative. ParseFloat accepts more than Discord sends, such as
// hexadecimal numbers, which do no harm, and "Inf", which is rejected.
func parseDecimal(text string) (float64, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0, false
	}
	return f, true
}

// refusal holds the fields of the body of a 429.
type refusal struct {
	empty         bool
	global        bool
	hasRetryAfter bool
	retryAfter    time.Duration
	code          int
}

func parseRefusal(body []byte) refusal {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return refusal{empty: true}
	}
	// Decode each field separately, so that a field of an unexpected type does not hide the others.
	var raw struct {
		RetryAfter json.RawMessage `json:"retry_after"`
		Global     json.RawMessage `json:"global"`
		Code       json.RawMessage `json:"code"`
	}
	if json.Unmarshal(body, &raw) != nil {
		return refusal{}
	}
	r := refusal{global: string(raw.Global) == "true"}
	r.retryAfter, r.hasRetryAfter = parseSeconds(unquote(raw.RetryAfter))
	r.code, _ = parseCount(unquote(raw.Code))
	return r
}

// unquote returns a JSON number as its text, whether or not it was sent as a string.
func unquote(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }

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

// The names of the headers in the canonical form in which net/http stores them.
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

// Response is what one HTTP response says about rate limits. If a header is absent or invalid (NaN, a negative or a
// blank number), the field for it has the zero value. A Response is cheap to copy.
type Response struct {
	// Status is the HTTP status code.
	Status int
	// Class says which limit has refused the request. It is ClassOK if no limit has refused it. Discord refuses requests
	// only with the status 429; other servers may use other statuses, see httpclient.Dialect.
	Class Class
	// Limited reports whether Limit, Remaining and ResetAfter were all present and valid. A valid limit is from 1 to a
	// billion, and a valid reset is within a week. If Limited is false, these three fields are zero. If a server sends no
	// Reset-After, ResetAfter is the time from the server's Date to its Reset.
	Limited bool
	// HasRetryAfter reports whether RetryAfter was present: as a number of seconds, or as a date in a response that has a
	// Date. Discord sends it in 429s, and seldom in a 202 or a 503. In other successes than 202 it is ignored.
	HasRetryAfter bool
	// Code is Discord's error code in the body of a 429, 0 if there was none.
	Code int
	// Bucket is the bucket hash, without the major parameter. It is empty if absent.
	Bucket string
	// Limit is the number of requests per window, at least 1.
	Limit int
	// Remaining is how many more requests the window accepts, from 0 to Limit.
	Remaining int
	// ResetAfter is the time until the bucket resets, counted from the moment of the server's response.
	ResetAfter time.Duration
	// ResetRounding is by how much ResetAfter may be too long if it was computed from times in whole seconds. It is 0 if
	// the server has named ResetAfter.
	ResetRounding time.Duration
	// RetryAfter is the time to wait before the next attempt, counted from the moment of the server's response. It is the
	// precise value in the body, except if body and header contradict each other.
	RetryAfter time.Duration
	// Stamp is when the window ends by Discord's clock, in Unix milliseconds; 0 if absent. It identifies the window, so
	// compare it only with other stamps of the same bucket. Only limits that processes share need it. ParseResponse does
	// not set it; use ParseStamp.
	Stamp int64
}

// Clip returns the response with every field in the range that ParseResponse guarantees. Use it for a response that
// does not come from ParseResponse. A limit that is not from 1 to a billion counts as absent, and a negative time
// counts as zero. A time that is too long is reduced, so that sums do not overflow.
func (r Response) Clip() Response {
	r.clip()
	return r
}

// clip is like Clip but makes no copy, because copies are slow. It writes only to fields that are out of range, which
// is rare.
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

// Invalid reports whether Discord counts the response towards its limit of invalid requests. It counts 401, 403, and
// 429 except ClassShared (Discord's documentation).
func (r *Response) Invalid() bool {
	switch r.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	return r.Class.Invalid()
}

// ParseResponse reads what an HTTP response says about rate limits. It needs the body only of a 429, so pass nil for
// all other responses. It never fails: a value that cannot be parsed counts as absent. It does not keep body, and it
// allocates memory only for a 429. The case of header names does not matter, even in a header that was not built by
// net/http.
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

// secondRounding is by how much a number of seconds in Retry-After may be too long, because Retry-After is rounded up.
// If a bucket resets more than secondRounding before the end of the wait, the bucket cannot have caused the 429.
const secondRounding = time.Second

// bodyCounts reports whether the wait of a 429 is the body's retry_after and not the Retry-After header, whose value is
// in r. Usually Discord's header is the body's value, rounded up to a second (or two, if it is a date). Sometimes the
// header is the time until the whole bucket resets, and the body is the time until the next request may be sent. So if
// the time in the body is shorter for one of these reasons, it is precise. If it is longer by at most a second, it is
// also precise, because other servers round the header down. In all other cases the longer time counts. There are two
// exceptions in which the header counts although the time in the body is longer: the body is in milliseconds, or the
// response has no scope and so is not Discord's.
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

// classify returns the class of a 429. The order of the cases matters. Only Discord names a scope, so a 429 with a
// scope does not come from the edge. A 429 without a scope is never ClassSubLimit: servers that send no scope may ask
// for a longer wait with each 429, and that would look like a hidden limit.
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

// fromEdge reports whether a 429 comes from Cloudflare and not from Discord. Cloudflare sends an HTML page, or static
// JSON without retry_after. The header Via decides only if there is no body, because proxies may remove or add it.
func fromEdge(fields *fields, refusal *refusal) bool {
	switch {
	case strings.Contains(strings.ToLower(fields.contentType), "html"):
		return true
	case refusal.empty:
		return fields.via == ""
	}
	return !refusal.hasRetryAfter
}

// fields has the raw values of the headers that matter here, "" if absent.
type fields struct {
	bucket, limit, remaining, resetAfter, retryAfter string
	reset                                            string // read only if there is a limit and no resetAfter
	date                                             string // read only if there is a reset or a retryAfter
	global, scope, via, contentType                  string // read only from a 429

	retryRounding time.Duration // by how much retryAfter may be too long; set by parseRetryAfter
}

// mayAskToWait reports whether a response with the status may have a Retry-After. Most responses are successes, so this
// saves a look-up.
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

// named returns the field for a header, whatever the case of its name. It returns nil if the header does not matter.
func (f *fields) named(name string) *string {
	canonical, value := "", (*string)(nil)
	switch len(name) {
	case len(headerBucket): // headerGlobal has the same length
		canonical, value = headerBucket, &f.bucket
		if strings.EqualFold(name, headerGlobal) {
			return &f.global
		}
	case len(headerLimit): // headerScope and headerReset have the same length
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

// parseLimit sets the limit in r if all of its headers are present and valid.
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

// parseCount reads a number of requests. Discord's numbers may have decimals, so "5" and "5.0" are the same.
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

// longestSensible is the longest reset-after that is believed. Discord's windows are seconds to hours long, and some
// resources have limits of a day or two.
const longestSensible = 7 * 24 * time.Hour

// largestSensible is the largest limit that is believed. Such limits can be added and doubled without an overflow. The
// largest limit seen so far is 50,000.
const largestSensible = 1_000_000_000

// longest is the upper bound of all durations. It is far above every sensible wait, and sums of such durations do not
// overflow.
const longest = 100 * 365 * 24 * time.Hour

// parseSeconds reads a number of seconds, which may have decimals.
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

// parseFixed reads the form that Discord sends: digits, with or without a decimal point between them. It takes a third
// of the time of ParseFloat.
func parseFixed(text string) (time.Duration, bool) {
	const most = 9 // the most digits before the point, and after it
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

// parseDecimal reads a finite number that is not negative. ParseFloat accepts more than Discord sends. Hexadecimal
// numbers, for example, do no harm. "Inf" and "NaN" are rejected.
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

// unquote returns the text of a JSON number, even if the number was sent as a string.
func unquote(raw json.RawMessage) string { return strings.Trim(string(raw), `"`) }

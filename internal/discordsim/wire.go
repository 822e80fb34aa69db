package discordsim

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// The names of the headers about limits that Discord documents, as keys of an http.Header.
const (
	headerLimit      = "X-Ratelimit-Limit"
	headerRemaining  = "X-Ratelimit-Remaining"
	headerReset      = "X-Ratelimit-Reset"
	headerResetAfter = "X-Ratelimit-Reset-After"
	headerBucket     = "X-Ratelimit-Bucket"
	headerGlobal     = "X-Ratelimit-Global"
	headerScope      = "X-Ratelimit-Scope"
	headerRetryAfter = "Retry-After"
)

// Response is the server's answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Class is the class of the refusal, or ClassNone.
	Class Class
	// Verdict is the judgement about a refusal, and Because is the reason.
	Verdict Verdict
	Because string
	// Connection, Delay, BodyDelay and Stall describe faults, which the Server carries out.
	Connection Connection
	Delay      time.Duration
	BodyDelay  time.Duration
	Stall      Stall

	handle  func(value any, response *Response) // Fault.Handle, which has not been called yet; nil: none
	reply   reply
	lessons []lesson // what the client learns by reading this response
	lost    bool     // the client will never read this response
}

// coming returns the part of the body that the client gets, and whether this is the whole body.
func (r *Response) coming() (body []byte, all bool) {
	switch r.Stall {
	case StallAtOnce:
		return nil, false
	case StallHalfway:
		return r.Body[:len(r.Body)/2], false
	}
	return r.Body, true
}

// baseHeader returns the headers that every answer has, because all answers pass the edge.
func (w *World) baseHeader(now time.Time, contentType string) http.Header {
	header := make(http.Header, 12)
	header["Date"] = []string{now.Add(w.config.ClockSkew).UTC().Format(http.TimeFormat)}
	header["Content-Type"] = []string{contentType}
	header["Server"] = []string{"cloudflare"}
	header["Cf-Ray"] = []string{"0000000000000000-SIM"}
	return header
}

// apiHeader returns the headers of an answer by Discord's API.
func (w *World) apiHeader(now time.Time) http.Header {
	header := w.baseHeader(now, "application/json")
	header["Via"] = []string{"1.1 google"}
	return header
}

// describe adds the limit headers of a bucket.
func (w *World) describe(header http.Header, now time.Time, hash string, state State) {
	reset := now.Add(w.config.ClockSkew + state.ResetAfter)
	header[headerLimit] = []string{strconv.Itoa(state.Limit)}
	header[headerRemaining] = []string{strconv.Itoa(state.Remaining)}
	header[headerReset] = []string{seconds(w.config.Rounding.milliseconds(time.Duration(reset.UnixNano())))}
	header[headerResetAfter] = []string{seconds(w.config.Rounding.milliseconds(state.ResetAfter))}
	header[headerBucket] = []string{hash}
}

// milliseconds rounds a duration to milliseconds, the precision of headers.
func (r Rounding) milliseconds(d time.Duration) int64 {
	switch r {
	case RoundNearest:
		d += time.Millisecond / 2
	case RoundUp:
		d += time.Millisecond - 1
	}
	ms := int64(d / time.Millisecond)
	if d < 0 && d%time.Millisecond != 0 {
		ms-- // the division has rounded towards zero; d is negative if a skewed clock is before the epoch
	}
	return ms
}

// seconds formats milliseconds as seconds with three decimals.
func seconds(ms int64) string {
	text := make([]byte, 0, 20)
	if ms < 0 {
		text, ms = append(text, '-'), -ms
	}
	text = strconv.AppendInt(text, ms/1000, 10)
	ms %= 1000
	return string(append(text, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10)))
}

// wholeSeconds formats milliseconds as whole seconds, rounded up, for a Retry-After.
func wholeSeconds(ms int64) string {
	return strconv.FormatInt((ms+999)/1000, 10)
}

// limitBody is the body of a 429 from the API. RetryAfter is in seconds.
type limitBody struct {
	Message    string   `json:"message"`
	RetryAfter *float64 `json:"retry_after,omitempty"`
	Global     bool     `json:"global"`
	Code       int      `json:"code,omitempty"`
}

// writeRefusal builds the 429 for a refusal. The limit headers, if any, are already in the header.
func (w *World) writeRefusal(response *Response, x *exchange) {
	refusal := x.refusal
	ms := w.config.Rounding.milliseconds(refusal.retry)
	header := response.Header
	precise := float64(ms) / 1000
	body := limitBody{Message: "You are being rate limited.", RetryAfter: &precise, Code: refusal.code}
	if refusal.silent {
		body.RetryAfter = nil
	} else {
		header[headerRetryAfter] = []string{wholeSeconds(ms)}
	}
	switch refusal.class {
	case ClassGlobal:
		body.Global = true
		header[headerGlobal] = []string{"true"}
		header[headerScope] = []string{"global"}
	case ClassShared:
		body.Message = "The resource is being rate limited."
		header[headerScope] = []string{"shared"}
	default:
		header[headerScope] = []string{"user"}
	}
	response.Status, response.Class = http.StatusTooManyRequests, refusal.class
	response.Body = body.encode()
}

func (b limitBody) encode() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // numbers and strings always encode
	}
	return text
}

const (
	htmlPage = `<!DOCTYPE html>
<html><head><title>Access denied | discord.com used Cloudflare to restrict access</title></head>
<body><h1>Error 1015</h1><p>You are being rate limited.</p></body></html>
`
	jsonPage = `{"message": "This address has been blocked from the API for a while: ` +
		`too many rate limit violations.", "code": 0}`
)

// writeEdge builds the edge's answer, which has no scope, no Via and no retry_after.
func (w *World) writeEdge(response *Response, now time.Time, refusal refusal) {
	response.Status, response.Class = http.StatusTooManyRequests, refusal.class
	if refusal.page == PageJSON {
		response.Header, response.Body = w.baseHeader(now, "application/json"), []byte(jsonPage)
	} else {
		response.Header, response.Body = w.baseHeader(now, "text/html; charset=UTF-8"), []byte(htmlPage)
	}
	if !refusal.silent {
		response.Header[headerRetryAfter] = []string{wholeSeconds(RoundUp.milliseconds(refusal.retry))}
	}
}

// defaultBody returns the body for a status, for answers whose rule sets none.
func defaultBody(status int) []byte {
	switch {
	case status == http.StatusNoContent:
		return nil
	case status < 400:
		return []byte("{}")
	case status >= 500:
		return []byte("upstream connect error")
	}
	text := strconv.Itoa(status) + ": " + http.StatusText(status)
	return []byte(`{"message": ` + strconv.Quote(text) + `, "code": 0}`)
}

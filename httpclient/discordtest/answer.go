package discordtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Answer answers an operation with a status and a body, if no limit refuses the request. A body that is a string or
// []byte is sent as it is, nil is replaced by one that fits the status, and everything else is encoded as JSON. A
// response with a status of 500 or more has no limit headers. Without any Answer or Handle, the answer is 200 and {}.
func Answer(on string, status int, body any) Rule {
	r := newRule("Answer", answering, on).
		check(status >= 200 && status <= 599, "%d is no status of an answer: want 200 to 599", status).
		check(status != http.StatusTooManyRequests, "use Refuse for a 429, which sets its class and retry-after").
		check(body == nil || status != http.StatusNoContent, "an answer of status 204 has no body")
	r.fault.Status = status
	switch b := body.(type) {
	case nil:
	case string:
		r.fault.Body = b
	case []byte:
		r.fault.Body = string(b)
	default:
		text, err := json.Marshal(body)
		r.fault.Body = string(text)
		r = r.check(err == nil, "the body cannot be written as JSON: %v", err)
	}
	if body != nil && r.fault.Body == "" {
		r.fault.Edit = func(_ discordsim.Call, response *discordsim.Response) { response.Body = nil }
	}
	return r
}

// Handle lets a function answer an operation, once the limits have let the request through. It is called under no lock and may take its
// time, call the server's methods other than Close, which waits for it, or panic with [http.ErrAbortHandler] to cut the connection; any other
// panic fails the test. What it writes is sent when it returns. The headers that describe a bucket are the server's; use Answer and Header to replace them. The request's
// body is at most a mebibyte.
func Handle(on string, handler http.HandlerFunc) Rule {
	r := newRule("Handle", answering, on).check(handler != nil, "want a function, not nil")
	r.fault.Handle = func(value any, response *discordsim.Response) { value.(*record).serve(handler, response) }
	return r
}

// bucketHeaders describe a bucket, in the form of http.Header keys.
var bucketHeaders = []string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Reset-After", "X-Ratelimit-Bucket",
}

// serve replaces an answer by what a handler writes.
func (r *record) serve(handler http.HandlerFunc, response *discordsim.Response) {
	if r.answerRepeated(response) {
		return
	}
	defer r.caught("Handle")
	r.answered(0, nil) // until it has returned
	recorder := httptest.NewRecorder()
	handler(recorder, r.replay())
	if !slices.Contains([]int{http.StatusNoContent, http.StatusNotModified}, recorder.Code) {
		response.Body = recorder.Body.Bytes()
	} else {
		response.Body = nil
	}
	for name, values := range recorder.Header() {
		if !slices.Contains(bucketHeaders, http.CanonicalHeaderKey(name)) {
			response.Header[name] = values
		}
	}
	response.Status = recorder.Code
	r.answered(recorder.Code, response.Body)
}

// answered notes the answer. A message that it refuses was not created.
func (r *record) answered(status int, body []byte) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.Status = status
	if m := r.message; m != nil && status != 0 {
		m.body = body
		if status >= http.StatusMultipleChoices {
			m.created = time.Time{} // so that it is forgotten
		}
	}
}

// caught cuts the connection when a function of the test's has panicked, and fails the test unless that was what it wanted. It is to be
// deferred.
func (r *record) caught(name string) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		r.server.errorf("discordtest: the function of %s panicked at %s %s: %v", name, r.Method, r.Path, p)
	}
	panic(http.ErrAbortHandler)
}

// Refuse answers an operation with a 429 of the given class and retry-after. As at Discord it lasts until that time has
// passed, for all requests to which it applies; a request that is sent before counts as avoidable.
func Refuse(on string, class Class, retryAfter time.Duration) Rule {
	c, known := classes[class]
	r := newRule("Refuse", refusing, on).
		check(known, "%q is no class of a refusal: want User, SubLimit, Shared, Global or Edge", class).
		check(retryAfter >= time.Millisecond, "a 429 that asks to wait for %v: want a millisecond or more", retryAfter)
	r.fault.Refuse = &discordsim.Refusal{Class: c, Wait: retryAfter}
	return r
}

// Cut breaks the connection before the request reaches Discord: it is not counted.
func Cut(on string) Rule {
	r := newRule("Cut", breaking, on)
	r.fault.Connection = discordsim.ConnectionLostBefore
	return r
}

// Lose breaks the connection after Discord has processed the request: only the response is lost, and a request that is
// sent again is processed twice.
func Lose(on string) Rule {
	r := newRule("Lose", breaking, on)
	r.fault.Connection = discordsim.ConnectionLostAfter
	return r
}

// SlowBody delays the body of a response after its headers.
func SlowBody(on string, delay time.Duration) Rule {
	r := newRule("SlowBody", slowing, on).check(delay > 0, "want a positive duration, not %v", delay)
	r.fault.BodyDelay = delay
	return r
}

// edit adds the rule's headers to an answer, and says of a body what it is.
func (r *Rule) edit(response *discordsim.Response) {
	if r.fault.Edit != nil {
		r.fault.Edit(discordsim.Call{}, response)
	}
	if json.Valid([]byte(r.fault.Body)) {
		response.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		response.Header[name] = values
	}
}

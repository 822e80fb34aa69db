package discordtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/ratelight/ratelight/internal/discordsim"
)

// Answer answers requests of an operation with a status and a body, unless a limit refuses the request. If the body is
// a string or a []byte, it is sent unchanged. If the body is nil, a body that fits the status is sent. Any other body
// is encoded as JSON. A response with a status of 500 or more has no limit headers. A request to which no Answer and no
// Handle applies gets the answer 200 and {}.
//
// If the answer to a webhook's request has Discord's code for an unknown webhook, clients treat the webhook as deleted.
// The body that is sent for nil has no such code, so pass a body with the code:
//
//	discordtest.Answer("execute_webhook", 404, map[string]any{"message": "Unknown Webhook", "code": 10015})
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

// Handle answers requests of an operation with a function, unless a limit refuses the request. The function runs
// without locks. It may block, and may call all methods of the server except Close, which waits for the function. It
// may panic with [http.ErrAbortHandler] to cut the connection. Any other panic fails the test. The response is sent
// when the function returns. The server itself sets the headers that describe a bucket, and ignores those that the
// function sets. To replace these headers, use Answer and Header. The function gets at most a mebibyte of the request's
// body.
func Handle(on string, handler http.HandlerFunc) Rule {
	r := newRule("Handle", answering, on).check(handler != nil, "want a function, not nil")
	r.fault.Handle = func(value any, response *discordsim.Response) { value.(*record).serve(handler, response) }
	return r
}

// bucketHeaders lists the headers that describe a bucket, as http.Header keys.
var bucketHeaders = []string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Reset-After", "X-Ratelimit-Bucket",
}

// serve calls the handler and replaces the answer by the handler's response.
func (r *record) serve(handler http.HandlerFunc, response *discordsim.Response) {
	if r.answerRepeated(response) {
		return
	}
	defer r.caught("Handle")
	r.answered(0, nil) // status 0 until the handler has returned
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

// answered records the answer. If the answer is an error and the request has a message, the message counts as not
// created.
func (r *record) answered(status int, body []byte) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.Status = status
	if m := r.message; m != nil && status != 0 {
		m.body = body
		if status >= http.StatusMultipleChoices {
			m.created = time.Time{} // so that the nonce can be used again
		}
	}
}

// caught must be deferred by callers of a function of the test. If that function panics, caught cuts the connection.
// Unless the panic is http.ErrAbortHandler, caught also fails the test.
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

// Refuse answers requests of an operation with a 429 of the given class and retry-after. As at Discord, all requests to
// which this 429 applies are then refused until the retry-after has passed. These further 429s count as avoidable.
func Refuse(on string, class Class, retryAfter time.Duration) Rule {
	c, known := classes[class]
	r := newRule("Refuse", refusing, on).
		check(known, "%q is no class of a refusal: want User, SubLimit, Shared, Global or Edge", class).
		check(retryAfter >= time.Millisecond, "a 429 that asks to wait for %v: want a millisecond or more", retryAfter)
	r.fault.Refuse = &discordsim.Refusal{Class: c, Wait: retryAfter}
	return r
}

// Cut breaks the connection before the request reaches Discord. The request is not counted.
func Cut(on string) Rule {
	r := newRule("Cut", breaking, on)
	r.fault.Connection = discordsim.ConnectionLostBefore
	return r
}

// Lose breaks the connection after Discord has processed the request. Only the response is lost, so if the client sends
// the request again, it is processed twice.
func Lose(on string) Rule {
	r := newRule("Lose", breaking, on)
	r.fault.Connection = discordsim.ConnectionLostAfter
	return r
}

// SlowBody sends the headers of a response at once, and the body after the delay.
func SlowBody(on string, delay time.Duration) Rule {
	r := newRule("SlowBody", slowing, on).check(delay > 0, "want a positive duration, not %v", delay)
	r.fault.BodyDelay = delay
	return r
}

// edit finishes an answer. It removes the body if the rule's body is empty, and sets the Content-Type if the body is
// JSON. Then it sets the rule's headers, which replace headers of the same name.
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

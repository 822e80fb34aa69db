package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const (
	// soon is the Retry-After if no wait is predicted.
	soon = time.Second
	// statusClientGone appears only in logs. nginx uses this status for clients that have disconnected.
	statusClientGone   = 499
	codeUnknownWebhook = 10015
)

// answer is a response by the proxy itself.
type answer struct {
	status     int
	reason     string // for the header X-Ratelight-Proxy
	message    string
	code       int
	retryAfter time.Duration // 0: no Retry-After

	// The following fields are only for a 429:
	scope  string // user, shared or global
	bucket string
	limit  int // the bucket's limit; 0 if another limit is the cause
}

func badRequest(message string) *answer {
	return &answer{status: http.StatusBadRequest, reason: "bad-request", message: message}
}

// answerTo returns the answer for an error of the transport. The error's text becomes the message of the answer, so the
// text must not contain secrets.
func answerTo(err error) *answer {
	a := &answer{status: http.StatusServiceUnavailable, message: err.Error()}
	var (
		tooLong    *ratelimits.TooLongError
		queueFull  *ratelimits.QueueFullError
		edge       *ratelimits.EdgeError
		budget     *ratelimits.BudgetError
		superseded *ratelimits.SupersededError
		credential *httpclient.CredentialError
		path       *routes.PathError
		timeout    interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &tooLong) && tooLong.Cause != nil:
		a.reason, a.retryAfter = "shared-unavailable", soon
	case errors.As(err, &tooLong):
		a.refuseTooLong(tooLong)
	case errors.As(err, &edge):
		a.refuse("edge", "global", edge.Hold)
	case errors.As(err, &budget):
		a.refuse("invalid-budget", "global", budget.RetryAfter)
	case errors.As(err, &queueFull):
		a.reason, a.retryAfter = "queue-full", soon
	case errors.As(err, &superseded):
		a.status, a.reason = http.StatusConflict, "superseded"
	case errors.As(err, &credential):
		a.refuseCredential(credential)
	case errors.Is(err, buckets.ErrClosed):
		a.reason, a.retryAfter = "closed", soon
	case errors.As(err, &path):
		a.status, a.reason = http.StatusBadRequest, "bad-request"
	case errors.Is(err, httpclient.ErrOptions):
		a.status, a.reason = http.StatusInternalServerError, "options"
	case errors.Is(err, context.Canceled):
		a.status, a.reason = statusClientGone, "client-gone"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		a.status, a.reason = http.StatusGatewayTimeout, "timeout"
	default:
		a.status, a.reason = http.StatusBadGateway, "unreachable"
	}
	return a
}

// refuse makes the answer a 429 with the given wait, or soon if the wait is not positive.
func (a *answer) refuse(reason, scope string, d time.Duration) {
	a.status, a.reason, a.scope, a.retryAfter = http.StatusTooManyRequests, reason, scope, d
	if d <= 0 {
		a.retryAfter = soon
	}
}

func (a *answer) refuseTooLong(e *ratelimits.TooLongError) {
	scope := "user"
	switch {
	case e.Global || e.Class == ratelimits.ClassEdge:
		scope = "global"
	case e.Class == ratelimits.ClassShared:
		scope = "shared"
	}
	a.refuse("too-long", scope, e.Wait-e.Waited)
	if scope == "user" && e.Class != ratelimits.ClassSubLimit && e.Declared == "" { // the bucket's own limit is the cause
		a.limit = e.Limit
	}
	if scope != "global" {
		a.bucket = e.Bucket
	}
}

func (a *answer) refuseCredential(e *httpclient.CredentialError) {
	a.reason, a.retryAfter = "credential", e.RetryAfter
	if e.Status == http.StatusNotFound { // repeat the answer of Discord, which does not count a 404 as invalid
		a.status, a.code, a.message, a.retryAfter = http.StatusNotFound, codeUnknownWebhook, "Unknown Webhook", 0
	}
}

// write sends the answer. After that, net/http reads the rest of the request's body, so that it can reuse the
// connection. write gives the client only drainTime to send this rest.
func (a *answer) write(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // some servers cannot set deadlines
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set(headerProxy, a.reason)
	header.Set("Via", "1.1 ratelight") // libraries treat a 429 without Via as Cloudflare's
	body := map[string]any{"message": a.message, "code": a.code}
	seconds := math.Ceil(a.retryAfter.Seconds()*1000) / 1000
	if a.retryAfter > 0 {
		header.Set("Retry-After", strconv.FormatFloat(math.Ceil(seconds), 'f', 0, 64))
	}
	if a.status == http.StatusTooManyRequests {
		body["retry_after"], body["global"] = seconds, a.scope == "global"
		a.writeLimit(header, seconds)
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic("proxy: " + err.Error()) // impossible for texts and numbers
	}
	header.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(a.status)
	_, _ = w.Write(text) // an error means that the client has disconnected
}

// writeLimit adds the headers in which Discord describes the limit that caused a 429.
func (a *answer) writeLimit(header http.Header, seconds float64) {
	header.Set("X-RateLimit-Scope", a.scope)
	if a.scope == "global" {
		header.Set("X-RateLimit-Global", "true")
	}
	if a.bucket != "" {
		header.Set("X-RateLimit-Bucket", a.bucket)
	}
	if a.limit > 0 {
		header.Set("X-RateLimit-Limit", strconv.Itoa(a.limit))
		header.Set("X-RateLimit-Remaining", "0")
		header.Set("X-RateLimit-Reset-After", strconv.FormatFloat(seconds, 'f', 3, 64))
		reset := float64(time.Now().Add(a.retryAfter).UnixMilli()) / 1000
		header.Set("X-RateLimit-Reset", strconv.FormatFloat(reset, 'f', 3, 64))
	}
}

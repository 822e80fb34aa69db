package httpclient

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/ratelimits"
)

// Hooks are functions that are called for each request and each attempt. All are optional. A hook runs on the goroutine
// that called RoundTrip, with no lock held, and delays its request. It gets the request's context. Waits and holds are
// reported to the hooks of the manager instead, see buckets.Hooks. The manager's hooks get a context with the values of
// the request's context. Their context may end as soon as the wait ends.
type Hooks struct {
	// Request is called before each attempt, after the limiter has granted it.
	Request func(context.Context, RequestEvent)
	// Response is called after each attempt.
	Response func(context.Context, ResponseEvent)
	// Done is called once for each request to a limited host, just before RoundTrip returns, even if the request was not
	// sent. It is not called if the path or method is malformed, if options cannot be used, or if Close or Shutdown was
	// called before the request came.
	Done func(context.Context, DoneEvent)
}

// RequestEvent describes an attempt that is about to be sent.
type RequestEvent struct {
	// Route is the method and template, and Major is the major parameter in the form of routes.Major.String.
	Route, Major string
	// Attempt is the number of this attempt of the request, from 1. Refused attempts count.
	Attempt int
	// Queued is how long this attempt waited for the limiter.
	Queued time.Duration
	// Retry is why the attempt is made, RetryNone if it is the first one.
	Retry RetryReason
}

// ResponseEvent is the outcome of one attempt.
type ResponseEvent struct {
	// Route is the method and template, and Major is the major parameter in the form of routes.Major.String.
	Route, Major string
	// Attempt is the number of this attempt of the request, from 1. Refused attempts count.
	Attempt int
	// Took is the time from sending the request until the headers of the response arrived, or until the attempt failed if
	// there was no response.
	Took time.Duration
	// Status is the status of the response, 0 if there was none. Class is the kind of limit that refused the request,
	// ClassOK if no limit did.
	Status int
	Class  ratelimits.Class
	// Err says why there was no response, or why the body of a 429 could not be read. It contains neither the token in
	// the request's path nor its Authorization, see Redact.
	Err error
	// Retry is why the attempt was made, RetryNone if it was the first one.
	Retry RetryReason
}

// RetryReason says why a request is sent again, that is, how its previous attempt ended.
type RetryReason string

const (
	RetryNone        RetryReason = ""             // the first attempt
	RetryRateLimited RetryReason = "rate_limited" // after a 429
	RetryServerError RetryReason = "server_error" // after a status of a temporary failure, see Attempts.Retries
	RetryTimeout     RetryReason = "timeout"      // after an attempt without progress, see Attempts.Timeout
	RetryConnection  RetryReason = "connection"   // after any other failure without a response
)

// DoneEvent is the outcome of one request, with all its attempts.
type DoneEvent struct {
	// Route is the method and template, and Major is the major parameter in the form of routes.Major.String.
	Route, Major string
	// TokenHash is a hash of the token in the path, with a random key of this process. It is 0 if there is no token.
	// Discord counts requests with different tokens separately, even if their Major is the same, as it is, for example,
	// for follow-ups to different interactions.
	TokenHash uint64
	// Attempts is the number of attempts to send the request, 0 if there was none.
	Attempts int
	// Status is the status of the returned response, 0 if there is none. In that case Err is the error that RoundTrip
	// returns. Err contains neither the token in the request's path nor its Authorization, see Redact.
	Status int
	Err    error
	// Took is the time from the call of RoundTrip until the outcome. Waited is the part of this time in which the request
	// waited: for limits, between attempts, and for data of its body. Sent is the part in which the request was in flight:
	// the time of each attempt until the headers of the response arrived. Sent includes the time in which RoundTrip read
	// the body of a response, such as that of a 429.
	Took, Waited, Sent time.Duration
}

// Overhead returns the time that the transport itself took, in which the request was neither waiting nor in flight.
func (e DoneEvent) Overhead() time.Duration { return max(e.Took-e.Waited-e.Sent, 0) }

// WithHooks sets the hooks of the transport. AddHooks adds more.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// AddHooks adds hooks to the existing ones. Use it in a package that observes the transport of its caller, such as
// httpclient/metrics. The new hooks are called only for requests that begin after AddHooks. All hooks are called in the
// order in which they were added. Hooks cannot be removed. AddHooks does not block, and is safe for concurrent use.
func (t *Transport) AddHooks(hooks Hooks) {
	for {
		before := t.hooks.Load()
		together := &Hooks{
			Request:  inTurn(before.Request, hooks.Request),
			Response: inTurn(before.Response, hooks.Response),
			Done:     inTurn(before.Done, hooks.Done),
		}
		if t.hooks.CompareAndSwap(before, together) {
			return
		}
	}
}

// inTurn returns a function that calls first and then second. Either of them may be nil.
func inTurn[T any](first, second func(context.Context, T)) func(context.Context, T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, event T) { first(ctx, event); second(ctx, event) }
}

// WithLogger sets where the transport and its own manager log. The transport itself logs failed attempts at debug
// level, and warns if it returns a 429 because the request's body can be sent only once. Nil turns logging off. See
// buckets.WithLogger for the attributes, and for how often a line is logged. The number of omitted lines is logged with
// a later line, or when the transport is closed.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		s.log = nil
		if logger != nil {
			s.log = sparselog.New(logger)
		}
		s.buckets = append(s.buckets, buckets.WithLogger(logger))
	}
}

// callRequestHook reports an attempt that is about to be sent. asked is when the request began to wait for its lease.
// If the hook panics, nothing is sent, and callRequestHook returns the lease.
func (x *roundTrip) callRequestHook(asked time.Time, lease buckets.Lease) {
	if x.hooks.Request == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			lease.Return()
		}
	}()
	x.hooks.Request(x.request.Context(), RequestEvent{
		Route: x.route(), Major: x.major(), Attempt: x.retry.attempts, Queued: time.Since(asked), Retry: x.retry.reason,
	})
	returned = true
}

type times struct {
	began        time.Time
	waited, sent time.Duration
}

// measure returns a function (over). When over is called, it adds the time since the call of measure to sum.
func measure(sum *time.Duration) (over func()) {
	began := time.Now()
	return func() { *sum += time.Since(began) }
}

var tokenSeed = maphash.MakeSeed()

// callDoneHook reports the outcome of the request. If the hook panics, callDoneHook closes the response, because no
// caller gets it.
func (x *roundTrip) callDoneHook(response *http.Response, err error) {
	if x.hooks.Done == nil {
		return
	}
	defer closeInPanic(response)
	e := DoneEvent{
		Route: x.route(), Major: x.major(), Attempts: x.retry.attempts,
		Took: time.Since(x.times.began), Waited: x.times.waited, Sent: x.times.sent,
	}
	if token := x.ask.Route.Major().Token; token != "" {
		e.TokenHash = maphash.String(tokenSeed, token) | 1
	}
	if err != nil {
		e.Err = x.redacted(err)
	}
	if response != nil {
		e.Status = response.StatusCode
	}
	x.hooks.Done(x.request.Context(), e)
}

// callResponseHook reports the outcome of an attempt. took is the event's Took.
func (x *roundTrip) callResponseHook(took time.Duration, response *http.Response, class ratelimits.Class, err error) {
	if x.hooks.Response != nil {
		e := ResponseEvent{
			Route: x.route(), Major: x.major(), Attempt: x.retry.attempts, Took: took, Class: class, Retry: x.retry.reason,
		}
		if err != nil {
			e.Err = x.redacted(err)
		}
		if response != nil {
			e.Status = response.StatusCode
		}
		x.hooks.Response(x.request.Context(), e)
	}
}

// logFailure logs a failed attempt, with the pause before the next attempt or the reason why there is none.
func (x *roundTrip) logFailure(
	level slog.Level, response *http.Response, err error, pause time.Duration, reason error,
) {
	ctx := x.request.Context()
	if !x.log.Enabled(ctx, level) {
		return
	}
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	class := strconv.Itoa(status)
	attributes := []slog.Attr{
		slog.String("route", x.route()), slog.String("major", x.major()),
		slog.Int("attempt", x.retry.attempts), slog.Int("status", status),
	}
	if err != nil {
		attributes = append(attributes, slog.String("error", x.redacted(err).Error()))
	}
	if reason != nil {
		class += " " + reason.Error()
		attributes = append(attributes, slog.String("reason", reason.Error()))
	} else {
		attributes = append(attributes, slog.Duration("pause", pause))
	}
	now := x.sinceMade()
	x.log.Write(ctx, now, sparselog.Line{Level: level, Message: "request failed", Class: class, Attributes: attributes})
	x.log.Flush(now, false)
}

// redacted returns an error from which the request's credential and the secrets in its URL have been removed.
func (x *roundTrip) redacted(err error) error {
	return redact.Error(err, redact.Secrets(x.request.URL, x.ask.Authorization)...)
}

func (x *roundTrip) route() string { return x.ask.Route.Route().String() }

// major returns the redacted major parameter. It computes the text once, because hooks ask for it more than once.
func (x *roundTrip) major() string {
	if x.redactedMajor == "" {
		x.redactedMajor = x.ask.Route.Major().String()
	}
	return x.redactedMajor
}

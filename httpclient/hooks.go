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

// Hooks are functions that are called for every request, and every attempt. All are optional. They are called on the
// goroutine of the request, which they delay, with no lock held. The context is the request's. Waits and holds are
// reported to those of the manager, see buckets.Hooks, with a context that has the request's values and ends with its
// wait.
type Hooks struct {
	// Request is called before each attempt, after the limiter has granted it.
	Request func(context.Context, RequestEvent)
	// Response is called after each attempt.
	Response func(context.Context, ResponseEvent)
	// Done is called once for each request to a limited host, just before RoundTrip returns: also for one that was never
	// sent, but not for a malformed path or after Close.
	Done func(context.Context, DoneEvent)
}

// RequestEvent is one attempt that is about to be sent.
type RequestEvent struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Attempt counts the request's attempts, refusals included, from 1.
	Attempt int
	// Queued is how long this attempt waited for the limiter.
	Queued time.Duration
	// Retry is why it is made, RetryNone if it is the first one.
	Retry RetryReason
}

// ResponseEvent is the outcome of one attempt.
type ResponseEvent struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Attempt counts the request's attempts, refusals included, from 1.
	Attempt int
	// Took is the time from sending the request until the headers of the response.
	Took time.Duration
	// Status is that of the response, 0 if there was none. Class says which limit refused it.
	Status int
	Class  ratelimits.Class
	// Err is why there was no response, without the token and the credential of the request, see Redact.
	Err error
	// Retry is why the attempt was made, RetryNone if it was the first one.
	Retry RetryReason
}

// RetryReason is why a request is sent again: how the attempt before ended.
type RetryReason string

const (
	RetryNone        RetryReason = ""             // it is sent for the first time
	RetryRateLimited RetryReason = "rate_limited" // by a 429
	RetryServerError RetryReason = "server_error" // by a status of a failure that will pass, see WithRetries
	RetryTimeout     RetryReason = "timeout"      // without progress for too long
	RetryConnection  RetryReason = "connection"   // without a response, otherwise
)

// DoneEvent is what became of one request, with all its attempts.
type DoneEvent struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// TokenHash is a hash of the token in the path, by a key that no other process has, 0 if there is none. It tells
	// requests apart that Discord counts apart, such as the follow-ups to different interactions, whose Major is the
	// same.
	TokenHash uint64
	// Attempts is how often it was sent, 0 if never.
	Attempts int
	// Status is that of the response that is returned, 0 if there is none. Err is why, without the token and the
	// credential of the request, see Redact.
	Status int
	Err    error
	// Took is the time from the call of RoundTrip. Waited is the part of it in which the request waited: for limits,
	// between attempts, and for its body. Sent is the part in which it was in flight, until the headers of each response,
	// or the end of a 429.
	Took, Waited, Sent time.Duration
}

// Overhead is the time that the transport itself has taken: neither waiting nor in flight.
func (e DoneEvent) Overhead() time.Duration { return max(e.Took-e.Waited-e.Sent, 0) }

// WithHooks sets what is called for each request. AddHooks adds more.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// AddHooks adds functions to those that there are, for whoever observes a transport that somebody else has made, such
// as httpclient/metrics. All are called, in the order in which they were added, for requests that begin from now on.
// They cannot be removed. It does not block, and is safe for concurrent use.
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

// inTurn returns a function that calls both, either of which may be nil.
func inTurn[T any](first, second func(context.Context, T)) func(context.Context, T) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, event T) { first(ctx, event); second(ctx, event) }
}

// WithLogger sets where the transport and its own manager log. The transport itself logs failed attempts, at debug
// level, and warns if it returns a 429 because the request's body can be sent only once. Nil turns logging off. See
// buckets.WithLogger for the attributes, and how often a line is logged; the transport has no garbage collector, and
// logs omitted lines with a later line or by Close.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		s.log = nil
		if logger != nil {
			s.log = sparselog.New(logger)
		}
		s.buckets = append(s.buckets, buckets.WithLogger(logger))
	}
}

// callRequestHook reports an attempt that is about to be sent, after it was asked for at the given time. Should the
// hook panic, nothing is sent and all is given back.
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

// times are how long a request has taken so far.
type times struct {
	began        time.Time
	waited, sent time.Duration
}

// measure adds how long something takes, until over is called.
func measure(sum *time.Duration) (over func()) {
	began := time.Now()
	return func() { *sum += time.Since(began) }
}

var tokenSeed = maphash.MakeSeed()

// callDoneHook reports what became of the request. Should the hook panic, nobody gets the response, and it is closed.
func (x *roundTrip) callDoneHook(response *http.Response, err error) {
	if x.hooks.Done == nil {
		return
	}
	defer closeInPanic(response)
	e := DoneEvent{
		Route: x.route(), Major: x.major(), Attempts: x.retry.attempts,
		Took: time.Since(x.times.began), Waited: x.times.waited, Sent: x.times.sent,
	}
	if token := x.ask.Route.MajorToken(); token != "" {
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

// callResponseHook reports the outcome of an attempt, whose header took that long.
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

// logFailure logs an attempt that failed, and what follows.
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

// redacted returns an error without the credential of the request and the secrets of its URL.
func (x *roundTrip) redacted(err error) error {
	return redact.Error(err, redact.Secrets(x.request.URL, x.ask.Authorization)...)
}

func (x *roundTrip) route() string { return x.ask.Route.Route().String() }

// major is asked for more than once if there are hooks.
func (x *roundTrip) major() string {
	if x.redactedMajor == "" {
		x.redactedMajor = x.ask.Route.RedactedMajor()
	}
	return x.redactedMajor
}

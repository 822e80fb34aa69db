package httpclient

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/ratelimits"
)

// Hooks are functions that are called for every attempt. Both are optional. They are called on the goroutine of the request, which they delay, with no
// lock held. The context is the request's. Waits and holds are reported to those of the manager, see buckets.Hooks, with a
// context that has the request's values and ends with its wait.
type Hooks struct {
	// Request is called before each attempt, after the limiter has granted it.
	Request func(context.Context, RequestEvent)
	// Response is called after each attempt.
	Response func(context.Context, ResponseEvent)
}

// RequestEvent is one attempt that is about to be sent.
type RequestEvent struct {
	// Route is the method and template, Major its major parameter as in routes.CompiledRoute.RedactedMajor.
	Route, Major string
	// Attempt counts the request's attempts, refusals included, from 1.
	Attempt int
	// Queued is how long this attempt waited for the limiter.
	Queued time.Duration
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
}

// WithHooks sets what is called for each attempt.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// WithLogger sets where the transport and its own manager log. The transport itself logs failed attempts, at debug
// level, and warns if it returns a 429 because the request's body can be sent only once. Nil turns logging off. See buckets.WithLogger for the attributes, and how often a line is logged; the
// transport has no garbage collector, and logs omitted lines with a later line or by Close.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		s.log = nil
		if logger != nil {
			s.log = sparselog.New(logger)
		}
		s.buckets = append(s.buckets, buckets.WithLogger(logger))
	}
}

// callRequestHook reports an attempt that is about to be sent, after it was asked for at the given time. Should the hook panic, nothing
// is sent and all is given back.
func (x *roundTrip) callRequestHook(asked time.Time, lease buckets.Lease, content io.ReadCloser) {
	if x.hooks.Request == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			lease.Return()
			closeSoon(content)
		}
	}()
	x.hooks.Request(x.request.Context(), RequestEvent{Route: x.route(), Major: x.major(), Attempt: x.retry.attempts, Queued: time.Since(asked)})
	returned = true
}

// since returns how long ago an attempt was sent, if somebody wants to know.
func (x *roundTrip) since(at time.Time) time.Duration {
	if x.hooks.Response == nil {
		return 0
	}
	return time.Since(at)
}

// callResponseHook reports the outcome of an attempt, whose header took that long.
func (x *roundTrip) callResponseHook(took time.Duration, response *http.Response, class ratelimits.Class, err error) {
	if x.hooks.Response != nil {
		e := ResponseEvent{Route: x.route(), Major: x.major(), Attempt: x.retry.attempts, Took: took, Class: class}
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
func (x *roundTrip) logFailure(level slog.Level, response *http.Response, err error, pause time.Duration, reason error) {
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
		slog.String("route", x.route()), slog.String("major", x.major()), slog.Int("attempt", x.retry.attempts), slog.Int("status", status),
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

// redacted returns an error without the token and the credential of the request.
func (x *roundTrip) redacted(err error) error {
	return redact.Error(err, redact.Secrets(message.Path(x.request.URL), x.ask.Authorization)...)
}

func (x *roundTrip) route() string { return x.ask.Route.Route().String() }

func (x *roundTrip) major() string { return x.ask.Route.RedactedMajor() }

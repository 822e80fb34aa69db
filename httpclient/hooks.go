package httpclient

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/ratelimits"
)

// Hooks are told of every attempt. Both are optional. They are called on the goroutine of the request, which they delay, with no
// lock held. What waits and is held back is told to those of the manager, see buckets.Hooks.
type Hooks struct {
	// Request is called before each attempt, when the limiter has let it go.
	Request func(RequestEvent)
	// Response is called after each attempt.
	Response func(ResponseEvent)
}

// RequestEvent is one attempt that is about to be sent.
type RequestEvent struct {
	// Route is the method and template.
	Route string
	// Attempt counts the request's attempts, refusals included, from 1.
	Attempt int
	// Queued is how long this attempt was held back by the limiter.
	Queued time.Duration
}

// ResponseEvent is the outcome of one attempt.
type ResponseEvent struct {
	// Route is the method and template.
	Route string
	// Attempt counts the request's attempts, refusals included, from 1.
	Attempt int
	// Took is the time from sending until the header of the response.
	Took time.Duration
	// Status is that of the response, 0 if there was none. Class is whose limit refused it.
	Status int
	Class  ratelimits.Class
	// Err is why there was no response, without the token and the credential of the request, see Redact.
	Err error
}

// WithHooks sets what is told of the attempts.
func WithHooks(hooks Hooks) Option {
	return func(s *settings) { s.hooks = hooks }
}

// WithLogger sets where the transport and its own manager log, see buckets.WithLogger. The transport itself logs each attempt that
// failed, for debugging. Nil turns logging off.
func WithLogger(logger *slog.Logger) Option {
	return func(s *settings) {
		s.logger = logger
		s.buckets = append(s.buckets, buckets.WithLogger(logger))
	}
}

// callRequestHook tells of an attempt that is about to be sent, after it was asked for at the given time. Should the hook panic, nothing
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
	x.hooks.Request(RequestEvent{Route: x.route(), Attempt: x.retry.attempts, Queued: time.Since(asked)})
	returned = true
}

// since returns how long ago an attempt was sent, if somebody wants to know.
func (x *roundTrip) since(at time.Time) time.Duration {
	if x.hooks.Response == nil {
		return 0
	}
	return time.Since(at)
}

// callResponseHook tells of the outcome of an attempt, whose header took that long.
func (x *roundTrip) callResponseHook(took time.Duration, response *http.Response, class ratelimits.Class, err error) {
	if x.hooks.Response != nil {
		e := ResponseEvent{Route: x.route(), Attempt: x.retry.attempts, Took: took, Class: class}
		if err != nil {
			e.Err = redact.Error(err, redact.Secrets(message.Path(x.request.URL), x.ask.Authorization)...)
		}
		if response != nil {
			e.Status = response.StatusCode
		}
		x.hooks.Response(e)
	}
}

// logFailure logs an attempt that failed, and what follows.
func (x *roundTrip) logFailure(response *http.Response, pause time.Duration, reason error) {
	if x.logger == nil || !x.logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	status := 0
	if response != nil {
		status = response.StatusCode
	}
	attributes := []slog.Attr{
		slog.String("route", x.route()), slog.Int("attempt", x.retry.attempts), slog.Int("status", status),
	}
	if reason != nil {
		attributes = append(attributes, slog.String("given up", reason.Error()))
	} else {
		attributes = append(attributes, slog.Duration("again in", pause))
	}
	x.logger.LogAttrs(context.Background(), slog.LevelDebug, "request failed", attributes...)
}

func (x *roundTrip) route() string { return x.ask.Route.Route().String() }

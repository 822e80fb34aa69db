package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// DefaultAttemptTimeout is how long one attempt may take, unless WithAttemptTimeout says otherwise.
const DefaultAttemptTimeout = 15 * time.Second

// WithAttemptTimeout sets how long one attempt may take, from sending until the response's body is read: with a large upload,
// that is most of it. The time in queues is not counted, and neither are pauses. Zero or less means no bound. The default is
// DefaultAttemptTimeout. ContextWithAttemptTimeout overrides it for one request.
func WithAttemptTimeout(d time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = max(d, 0) }
}

// ContextWithAttemptTimeout overrides WithAttemptTimeout for the requests made with the context, for a large file, say.
func ContextWithAttemptTimeout(ctx context.Context, d time.Duration) context.Context {
	t := tuningOf(ctx)
	t.timeout, t.hasTimeout = max(d, 0), true
	return context.WithValue(ctx, tuningKey{}, t)
}

// AttemptTimeoutError is the error of an attempt that took too long. It is not the caller's deadline, and does not match
// context.DeadlineExceeded; its Timeout method returns true.
type AttemptTimeoutError struct {
	// Route is the method and template, without parameters.
	Route string
	// After is how long the attempt was allowed to take.
	After time.Duration
}

func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("%s: no complete answer within %v", e.Route, e.After)
}

// Timeout returns true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// errNoResponse is the error for a transport below that breaks the contract of http.RoundTripper.
var errNoResponse = errors.New("the transport below returned neither a response nor an error")

// errAttemptTimeout is the cause of an attempt's context that ended by itself.
var errAttemptTimeout = errors.New("attempt timeout")

// send sends the request once, within its time.
func (x *exchange) send(content io.ReadCloser) (*http.Response, error) {
	ctx, cancel := x.attemptContext()
	response, err := x.base.RoundTrip(x.outgoing(ctx, content))
	if err != nil {
		err = x.timeout(ctx, err)
		cancel()
		return nil, err
	}
	if response == nil {
		cancel()
		return nil, errNoResponse
	}
	response.Request = x.request
	if response.Body == nil {
		response.Body = http.NoBody
	}
	switch {
	case response.Body == http.NoBody:
		cancel()
	case x.attemptTimeout > 0:
		response.Body = &timedBody{response.Body, x, ctx, cancel}
	}
	return response, nil
}

// attemptContext returns a context that ends with the request's or with the time of an attempt.
func (x *exchange) attemptContext() (context.Context, context.CancelFunc) {
	if x.attemptTimeout == 0 {
		return x.request.Context(), func() {}
	}
	return context.WithTimeoutCause(x.request.Context(), x.attemptTimeout, errAttemptTimeout)
}

// outgoing returns a copy of the request for one attempt. The transport below may ask for the body again, if a connection
// turns out to be dead before anything was sent.
func (x *exchange) outgoing(ctx context.Context, content io.ReadCloser) *http.Request {
	attempt := x.request.WithContext(ctx)
	attempt.Body, attempt.GetBody = content, x.body.get
	if content == nil && x.request.Body == http.NoBody {
		attempt.Body = http.NoBody
	}
	if x.header != nil {
		attempt.Header = x.header
	}
	return attempt
}

// timeout tells an attempt that took too long from a caller who gave up.
func (x *exchange) timeout(ctx context.Context, err error) error {
	if err != io.EOF && context.Cause(ctx) == errAttemptTimeout {
		return &AttemptTimeoutError{Route: x.route(), After: x.attemptTimeout}
	}
	return err
}

// timedBody is the body of a response that has to be read within the time of its attempt.
type timedBody struct {
	io.ReadCloser
	exchange *exchange
	context  context.Context
	cancel   context.CancelFunc
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		err = b.exchange.timeout(b.context, err)
		b.cancel()
	}
	return n, err
}

func (b *timedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

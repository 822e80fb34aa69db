package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// DefaultAttemptTimeout is how long an attempt may go without progress, unless WithAttemptTimeout says otherwise.
const DefaultAttemptTimeout = 15 * time.Second

// WithAttemptTimeout sets how long one attempt may go without progress; then it ends with an *AttemptTimeoutError. Zero or less means
// that it may for ever. The default is DefaultAttemptTimeout. ContextWithAttemptTimeout overrides it for one request.
//
// Progress is whatever moves bytes: the transport below reads a piece of the request's body; the headers of the response arrive;
// a read of its body returns. So the time of a large upload is no matter as long as it goes on, and neither is that of a large
// download. What counts is only
//   - from when the request is sent, or from the latest piece of its body, until the headers of the response: while the connection
//     is made, while the server asks for the body (Expect: 100-continue) or processes the request, and while the source of the
//     body gives nothing. A body in memory (see below) of a known length up to 32 KiB is one piece
//   - and each read of the response's body by itself. While nobody reads it, nothing is cut off
//
// The time in queues and pauses does not count. A connection that was switched to another protocol (101) has no timeout.
//
// A source that gives nothing may not even end a read when it is closed. So a request whose body is not known to be in memory is sent by a
// goroutine of its own, which is left alone with it then. In memory are bodies that http.NewRequest makes of a bytes.Buffer, bytes.Reader
// or strings.Reader, and those that the transport keeps.
//
// This finds connections that are dead, and no more: a server that sends a byte now and then keeps an attempt alive. How long a
// request may take in all is for the deadline of its context to say.
func WithAttemptTimeout(d time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = max(d, 0) }
}

// ContextWithAttemptTimeout overrides WithAttemptTimeout for the requests made with the context: for a route that Discord takes
// long to answer, say. It bounds the time without progress, too, and not that of the whole attempt.
func ContextWithAttemptTimeout(ctx context.Context, d time.Duration) context.Context {
	t := tuningOf(ctx)
	t.timeout, t.hasTimeout = max(d, 0), true
	return context.WithValue(ctx, tuningKey{}, t)
}

// AttemptTimeoutError is the error of an attempt that made no progress for too long. It is not the caller's deadline, and does not
// match context.DeadlineExceeded; its Timeout method returns true.
type AttemptTimeoutError struct {
	// Route is the method and template, without parameters.
	Route string
	// After is how long nothing had moved.
	After time.Duration
}

func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("%s: no progress for %v", e.Route, e.After)
}

// Timeout returns true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// errNoResponse is the error for a transport below that breaks the contract of http.RoundTripper.
var errNoResponse = errors.New("the transport below returned neither a response nor an error")

// attempt is one time that a request is sent. All that has to live until its response is read is one piece of memory.
type attempt struct {
	exchange *exchange
	span     span // nothing if the attempt has no end of its own
	request  http.Request
	body     io.ReadCloser // of the response, as it came
}

// send sends the request once. It ends when there is no progress for too long.
func (x *exchange) send(now time.Time, content io.ReadCloser) (*http.Response, error) {
	a := x.newAttempt(now)
	response, err := a.roundTrip(content)
	if err != nil {
		err = a.explain(err)
		a.span.end()
		return nil, err
	}
	if response == nil {
		a.span.end()
		return nil, errNoResponse
	}
	response.Request = x.request
	switch {
	case response.Body == nil || response.Body == http.NoBody:
		response.Body = http.NoBody
		a.span.end()
	case isSwitched(response):
		a.span.release()
	case a.span.begun():
		a.span.rest()
		a.body = response.Body
		response.Body = (*timedBody)(a)
	}
	return response, nil
}

// roundTrip sends the request. A body that is not in memory may come from a source that nothing can wake, and net/http waits for it
// even when the context has ended: then this leaves it alone.
func (a *attempt) roundTrip(content io.ReadCloser) (*http.Response, error) {
	a.prepare(content)
	ctx := a.request.Context()
	if content == nil || inMemory(content) || ctx.Done() == nil {
		return roundTrip(a.exchange.base, &a.request)
	}
	address := *a.request.URL // the caller's are its own again when this returns
	a.request.URL, a.request.Header = &address, a.request.Header.Clone()
	type answer struct {
		response *http.Response
		err      error
	}
	sending := start(func() answer {
		response, err := roundTrip(a.exchange.base, &a.request)
		return answer{response, err}
	})
	if !sending.wait(ctx) && !sending.waitForMoment() {
		sending.leave(func(late answer) {
			if late.response != nil && late.response.Body != nil {
				late.response.Body.Close()
			}
		})
		return nil, context.Cause(ctx)
	}
	got := sending.get()
	return got.response, got.err
}

// roundTrip sends a request through the transport below. Nobody looks at a response that comes with an error, so that is closed.
func roundTrip(base http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := base.RoundTrip(request)
	if err != nil && response != nil {
		if response.Body != nil {
			response.Body.Close()
		}
		response = nil
	}
	return response, err
}

// isSwitched reports that a connection is the caller's from now on: net/http gives a body that can be written to then.
func isSwitched(response *http.Response) bool {
	_, ok := response.Body.(io.Writer)
	return ok || response.StatusCode == http.StatusSwitchingProtocols
}

// newAttempt begins an attempt. The memory of the first is part of the exchange; that of others is new, as the transport below
// may still hold on to what it was sent before.
func (x *exchange) newAttempt(now time.Time) *attempt {
	a := &x.first
	if x.retry.attempts > 1 {
		a = new(attempt)
	}
	a.exchange = x
	if x.attemptTimeout == 0 {
		return a
	}
	ctx := x.request.Context()
	if own, ok := ctx.Deadline(); !ok || now.Add(x.attemptTimeout).Before(own) {
		a.span.begin(ctx, now, x.attemptTimeout, &x.deadlines)
	}
	return a
}

// prepare prepares the request as it is sent. The transport below may ask for the body again, if a connection turns out to be
// dead before anything was sent.
func (a *attempt) prepare(content io.ReadCloser) {
	x := a.exchange
	if a.span.begun() {
		a.request = *x.request.WithContext(&a.span)
	} else {
		a.request = *x.request
	}
	a.request.Body, a.request.GetBody = content, x.body.get
	if content == nil && x.request.Body == http.NoBody {
		a.request.Body = http.NoBody
	}
	if x.body.measured {
		a.request.ContentLength = x.body.length
	}
	if x.header != nil {
		a.request.Header = x.header
	}
	if content != nil && content != http.NoBody && !small(content, a.request.ContentLength) && a.request.Context().Done() != nil {
		a.watchUpload()
	}
}

// explain tells an attempt that took too long from a caller who gave up.
func (a *attempt) explain(err error) error {
	if err != io.EOF && a.span.late() {
		return &AttemptTimeoutError{Route: a.exchange.route(), After: a.exchange.attemptTimeout}
	}
	return err
}

// timedBody is the body of a response none of whose reads may take too long.
type timedBody attempt

func (b *timedBody) Read(p []byte) (int, error) {
	b.span.wait()
	n, err := b.body.Read(p)
	if err != nil {
		err = (*attempt)(b).explain(err)
		b.span.end()
	} else {
		b.span.rest()
	}
	return n, err
}

func (b *timedBody) Close() error {
	defer b.span.end()
	return b.body.Close()
}

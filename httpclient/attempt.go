package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// errNoResponse is the error for a transport below that breaks the contract of http.RoundTripper.
var errNoResponse = errors.New("the base transport returned neither a response nor an error")

// attempt is one time that a request is sent. All that has to live until its response is read is one piece of memory.
type attempt struct {
	progress
	request http.Request
	body    io.ReadCloser // of the response, as it came
}

// sendAttempt sends the request once. It ends when there is no progress for too long.
func (x *roundTrip) sendAttempt(now time.Time) (*http.Response, error) {
	a := x.newAttempt(now)
	response, err := a.send()
	if err != nil {
		err = a.explain(err)
		a.end()
		return nil, err
	}
	if response == nil {
		a.end()
		return nil, errNoResponse
	}
	response.Request = x.request
	switch {
	case response.Body == nil || response.Body == http.NoBody:
		response.Body = http.NoBody
		a.end()
	case isSwitched(response):
		a.release()
	case a.cancel != nil:
		a.transferred(true)
		a.body = response.Body
		response.Body = (*timedBody)(a)
	}
	return response, nil
}

// send sends the request. A body that is not in memory may come from a source whose reads nothing can end, and
// net/http waits for them even when the context has ended: then this returns without it.
func (a *attempt) send() (*http.Response, error) {
	content := a.roundTrip.body.next
	a.roundTrip.body.next = nil // it is given away
	a.prepare(content)
	ctx := a.request.Context()
	if content == nil || inMemory(content) || ctx.Done() == nil {
		return sendBelow(a.roundTrip.base, &a.request)
	}
	address := *a.request.URL // the caller's are its own again when this returns
	a.request.URL, a.request.Header = &address, a.request.Header.Clone()
	type answer struct {
		response *http.Response
		err      error
	}
	sending := start(func() answer {
		response, err := sendBelow(a.roundTrip.base, &a.request)
		return answer{response, err}
	})
	if !sending.wait(ctx) && !sending.waitBriefly() {
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

// sendBelow sends a request through the transport below. Nobody looks at a response that comes with an error, so that
// is closed.
func sendBelow(base http.RoundTripper, request *http.Request) (*http.Response, error) {
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

// newAttempt begins an attempt. The memory of the first is part of its roundTrip; that of others is new, as the
// transport below may still hold on to what it was sent before.
func (x *roundTrip) newAttempt(now time.Time) *attempt {
	a := &x.first
	if x.retry.attempts > 1 {
		a = new(attempt)
	}
	a.roundTrip, a.request = x, *x.request
	ctx, d := x.request.Context(), x.attemptTimeout
	if own, ok := ctx.Deadline(); d > 0 && (!ok || now.Add(d).Before(own)) {
		a.request = *x.request.WithContext(a.begin(ctx, now))
	}
	return a
}

// prepare prepares the request as it is sent. The transport below may ask for the body again, if a connection turns
// out to be dead before anything was sent.
func (a *attempt) prepare(content io.ReadCloser) {
	x := a.roundTrip
	a.request.Header, a.request.Body, a.request.GetBody = x.header, content, x.body.get
	if x.request.Body == http.NoBody {
		a.request.Body = http.NoBody
	}
	if x.body.measured {
		a.request.ContentLength, a.request.TransferEncoding = x.body.length, nil
	}
	isEmpty := content == nil || content == http.NoBody
	if !isEmpty && !sentInOnePiece(content, a.request.ContentLength) && a.request.Context().Done() != nil {
		a.watchUpload()
	}
}

// explain distinguishes an attempt that took too long from a caller who gave up.
func (a *attempt) explain(err error) error {
	if late, ok := context.Cause(a.request.Context()).(*AttemptTimeoutError); ok && err != io.EOF {
		return late
	}
	return err
}

// timedBody is the body of a response none of whose reads may take too long.
type timedBody attempt

// Format hides the request from fmt: callers print responses.
func (b *timedBody) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), "body of "+b.roundTrip.route())
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.await()
	n, err := b.body.Read(p)
	if err != nil {
		err = (*attempt)(b).explain(err)
		b.end()
	} else {
		b.transferred(true)
	}
	return n, err
}

func (b *timedBody) Close() error {
	b.await()
	defer b.end()
	return b.body.Close()
}

// watchUpload sees to the request's body, also if the transport below asks for it again.
func (a *attempt) watchUpload() {
	a.request.Body = a.newUpload(a.request.Body)
	get := a.request.GetBody
	if get == nil {
		return
	}
	a.request.GetBody = func() (io.ReadCloser, error) {
		content, err := get()
		if err != nil {
			return nil, err
		}
		return a.newUpload(content), nil
	}
}

// upload is the body of a request whose bytes are progress. It is closed when the context of the attempt ends, which
// ends most reads, as from a pipe that nobody writes to any more: net/http does not return before.
type upload struct {
	io.ReadCloser
	attempt *attempt
	stop    func() bool
	closed  atomic.Bool
}

func (a *attempt) newUpload(content io.ReadCloser) io.ReadCloser {
	u := &upload{ReadCloser: content, attempt: a}
	u.stop = context.AfterFunc(a.request.Context(), func() { u.close() })
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		u.attempt.transferred(false)
	}
	if ctx := u.attempt.request.Context(); err != nil && err != io.EOF && ctx.Err() != nil {
		err = context.Cause(ctx) // not that it was closed
	}
	return n, err
}

func (u *upload) Close() error {
	u.stop()
	return u.close()
}

func (u *upload) close() error {
	if !u.closed.CompareAndSwap(false, true) {
		return nil
	}
	return u.ReadCloser.Close()
}

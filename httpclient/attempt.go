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

// errNoResponse is returned when the base transport breaks the contract of http.RoundTripper.
var errNoResponse = errors.New("the base transport returned neither a response nor an error")

// attempt is one attempt to send a request. It holds, in one allocation, everything that must live until the response
// has been read.
type attempt struct {
	progress
	request http.Request
	body    io.ReadCloser // the response's body, as the base transport returned it
}

// sendAttempt sends the request once. It ends the attempt if there is no progress for the attempt timeout.
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

// send sends the request. A read of a body that is not in memory may never end, and net/http waits for such a read even
// after the context has ended. Therefore, with such a body, send stops waiting for net/http when the context ends.
func (a *attempt) send() (*http.Response, error) {
	content := a.roundTrip.body.next
	a.roundTrip.body.next = nil // the base transport closes the body
	a.prepare(content)
	ctx := a.request.Context()
	if content == nil || inMemory(content) || ctx.Done() == nil {
		return sendBelow(a.roundTrip.base, &a.request)
	}
	address := *a.request.URL // copy both, because the caller may change them after RoundTrip has returned
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

// sendBelow sends a request through the base transport. If the base returns a response together with an error,
// sendBelow closes the response and returns only the error.
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

// isSwitched reports whether the caller of RoundTrip now owns the connection. Such a caller gets a body that is an
// io.Writer.
func isSwitched(response *http.Response) bool {
	_, ok := response.Body.(io.Writer)
	return ok || response.StatusCode == http.StatusSwitchingProtocols
}

// newAttempt begins an attempt. The memory of the first attempt is a part of its roundTrip. Each later attempt gets new
// memory, because the base transport may still use the request of an earlier attempt.
func (x *roundTrip) newAttempt(now time.Time) *attempt {
	a := &x.first
	if x.retry.attempts > 1 {
		a = new(attempt)
	}
	a.roundTrip, a.request = x, *x.request
	if x.attempts.Timeout > 0 {
		a.request = *x.request.WithContext(a.begin(x.request.Context(), now))
	}
	return a
}

// prepare sets the header and the body that are sent. It also sets GetBody, because the base transport calls GetBody if
// a connection turns out to be dead before anything was sent.
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

// explain returns the *AttemptTimeoutError if the attempt timeout has ended the attempt, and err otherwise.
func (a *attempt) explain(err error) error {
	if late, ok := context.Cause(a.request.Context()).(*AttemptTimeoutError); ok && err != io.EOF {
		return late
	}
	return err
}

// timedBody is the body of a response. Each read of it is bounded by the attempt timeout.
type timedBody attempt

// Format hides the request and its credential from package fmt, because callers may print responses.
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

// watchUpload makes reads of the request's body count as progress, including reads of a body that the base transport
// gets from GetBody.
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

// upload is the body of a request. Each read of it counts as progress. The body is closed when the context of the
// attempt ends. Otherwise net/http would wait for a read that is in progress. Closing the body ends most such reads,
// for example a read from a pipe to which nothing is written.
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
		err = context.Cause(ctx) // instead of the error that the body was read after Close
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

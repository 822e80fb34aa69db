package httpclient

import (
	"context"
	"io"
	"sync/atomic"
)

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

// upload is the body of a request whose bytes are progress. It is closed when the context of the attempt ends, which ends most reads, as
// from a pipe that has fallen silent: net/http does not return before.
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
	if n > 0 && u.attempt.span.begun() {
		u.attempt.span.moved()
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

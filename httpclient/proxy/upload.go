package proxy

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// drainTime and maxDrained bound how long, and how much of, a body is read on whose request has been answered. Discord takes
	// no more than 25 MB from most.
	drainTime  = 5 * time.Second
	maxDrained = 32 << 20

	// uploadPatience is how long a client may be behind with its body, and slowestUpload, in bytes per second, what is fast enough.
	uploadPatience = 10 * time.Second
	slowestUpload  = 4 << 10
)

// uploadKey is the key of a request's upload in its context.
type uploadKey struct{}

// upload is a request's body on its way. Its client may not take for ever to send it: it would keep its connection, the memory that it
// has announced, or a place in a bucket.
type upload struct {
	io.ReadCloser
	control                       *http.ResponseController
	http1                         bool
	behind                        time.Duration // how much longer the client took than it would at slowestUpload
	begun, reading, ended, broken atomic.Bool

	received http.Header // the client's trailer, filled in when the body has been read
	trailer  http.Header // what of it passes, nil if nothing does
}

// declareTrailer notes which trailers follow the body: those whose names may pass as headers.
func (u *upload) declareTrailer(received http.Header) {
	u.received = received
	for name := range received {
		if ofTheWay(name) {
			continue
		}
		if u.trailer == nil {
			u.trailer = make(http.Header)
		}
		u.trailer[name] = nil
	}
}

func (u *upload) fillTrailer() {
	for name := range u.trailer {
		u.trailer[name] = u.received[name]
	}
}

func (u *upload) Read(p []byte) (int, error) {
	if !u.begun.Load() {
		u.begun.Store(true)
	}
	start := time.Now()
	_ = u.control.SetReadDeadline(start.Add(uploadPatience - u.behind)) // of a server that can
	u.reading.Store(true)
	n, err := u.ReadCloser.Read(p)
	u.reading.Store(false)
	u.behind = max(u.behind+time.Since(start)-time.Duration(n)*time.Second/slowestUpload, 0)
	switch {
	case err == io.EOF:
		u.fillTrailer()
		u.ended.Store(true)
	case err != nil:
		u.broken.Store(true)
		return n, err // and nobody waits for the rest
	}
	_ = u.control.SetReadDeadline(time.Time{})
	return n, err
}

// fails reports that a request failed because its client does not send the body, and ends a read that waits for it.
func (u *upload) fails(timeout bool) bool {
	if timeout && u.reading.Load() {
		u.broken.Store(true)
		_ = u.control.SetReadDeadline(time.Now())
	}
	return u.broken.Load()
}

// answer is called before the request is answered. If the body has not come to its end, its connection is not used again: what
// comes of it later would be taken for a request.
func (u *upload) answer(header http.Header) {
	if u != nil && u.http1 && !u.ended.Load() {
		header.Set("Connection", "close")
	}
}

// isLarge reports a request whose body may not be kept in memory.
func (h *Handler) isLarge(r *http.Request) bool {
	return r.ContentLength < 0 || r.ContentLength > h.maxBuffered
}

// drain reads the rest of a large body whose request has been answered early. A client that is still sending it would otherwise see a
// broken connection instead of the answer. One that waits to be told to send it (Expect) has its answer.
func (u *upload) drain(r *http.Request) {
	if u.ended.Load() || u.broken.Load() || !u.begun.Load() && r.Header.Get("Expect") != "" {
		return
	}
	_ = u.control.Flush() // what cannot flush has sent nothing yet, as without this
	if u.control.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // of a client that is gone
}

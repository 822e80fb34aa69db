package proxy

import (
	"io"
	"net/http"
	"sync"
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
	control              *http.ResponseController
	http1                bool
	behind               time.Duration // how much longer the client took than it would at slowestUpload
	begun, ended, broken atomic.Bool
	reading              chan struct{} // has room while nobody reads

	mu     sync.Mutex
	closed bool // nobody waits for the rest any more, and no later read puts that off

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
	if !u.setDeadline(start.Add(uploadPatience - u.behind)) {
		return 0, http.ErrBodyReadAfterClose
	}
	u.reading <- struct{}{}
	n, err := u.ReadCloser.Read(p)
	<-u.reading
	u.behind = max(u.behind+time.Since(start)-time.Duration(n)*time.Second/slowestUpload, 0)
	switch {
	case err == io.EOF:
		u.fillTrailer()
		u.ended.Store(true)
	case err != nil:
		u.broken.Store(true)
		return n, err // and nobody waits for the rest
	}
	u.setDeadline(time.Time{})
	return n, err
}

// setDeadline sets until when a read may take, of a server that can. It reports false after Close, whose deadline
// stays.
func (u *upload) setDeadline(t time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	_ = u.control.SetReadDeadline(t)
	return true
}

// Close gives the client a last time in which to send the rest. It does not wait for a read: the server closes the body
// when its handler has returned, and the answer may not wait for that.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed && !u.ended.Load() { // later reads of the connection are of another request
		_ = u.control.SetReadDeadline(time.Now().Add(drainTime))
	}
	u.closed = true
	return nil
}

// fails reports that a request failed because its client does not send the body, and ends a read that waits for it.
func (u *upload) fails(timeout bool) bool {
	if timeout && len(u.reading) > 0 {
		u.broken.Store(true)
		u.setDeadline(time.Now())
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

// drain reads the rest of a large body whose request has been answered early, until the deadline of Close. Over HTTP/1
// a client that is still sending it would otherwise see a broken connection instead of the answer. One that waits to be
// told to send it (Expect) has its answer.
func (u *upload) drain(r *http.Request) {
	if !u.http1 || u.ended.Load() || u.broken.Load() || !u.begun.Load() && r.Header.Get("Expect") != "" {
		return
	}
	if u.control.Flush() != nil { // of what cannot flush
		return
	}
	u.reading <- struct{}{}                         // after a read that is still under way
	_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // of a client that is gone
}

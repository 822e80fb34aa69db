package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// After the answer, the rest of a body is read for drainTime at most, and up to maxDrained bytes of this rest are
	// read. maxDrained is enough for most uploads, because Discord accepts at most 25 MB in most requests.
	drainTime  = 5 * time.Second
	maxDrained = 32 << 20

	// A client must send its body at the rate slowestUpload, in bytes per second. The client may fall behind this rate by
	// up to uploadPatience.
	uploadPatience = 10 * time.Second
	slowestUpload  = 4 << 10
)

// uploadKey is the context key of a request's upload.
type uploadKey struct{}

// upload is the body of a request that is being received. Each Read has a deadline. Without deadlines, a slow client
// could occupy a connection, the memory for the announced length, or a place in a bucket for ever.
type upload struct {
	io.ReadCloser
	control              *http.ResponseController
	http1                bool
	behind               time.Duration // how much longer reads have taken than they would at slowestUpload
	begun, ended, broken atomic.Bool
	reading              chan struct{} // contains one element during a Read

	mu     sync.Mutex
	closed bool // set by Close and fails: the read deadline is final

	received http.Header // the client's trailer, filled in when the body has been read
	trailer  http.Header // the part of received that is forwarded; nil if nothing is
}

// declareTrailer records which trailers are forwarded. A trailer is forwarded if a header of the same name would be
// forwarded.
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
		return n, err // keep the deadline, because the rest is not read
	}
	u.setDeadline(time.Time{})
	return n, err
}

// setDeadline sets the read deadline, if the server supports deadlines. After Close or fails has set the final
// deadline, setDeadline changes nothing and returns false.
func (u *upload) setDeadline(t time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	_ = u.control.SetReadDeadline(t)
	return true
}

// Close sets the final deadline for the rest of the body. It does not wait for a Read in progress, because this wait
// would delay the answer. The server closes the body itself after the handler has returned.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed && !u.ended.Load() { // after the body's end, the connection's reads belong to the next request
		_ = u.control.SetReadDeadline(time.Now().Add(drainTime))
	}
	u.closed = true
	return nil
}

// fails reports whether a request failed because its client did not send the body. timeout says whether the failure was
// a timeout. After a timeout, fails ends a Read that still waits for the body, because the server would remove the
// deadline if a Read were in progress when the handler returns.
func (u *upload) fails(timeout bool) bool {
	if timeout && len(u.reading) > 0 {
		u.broken.Store(true)
		u.mu.Lock()
		u.closed = true
		err := u.control.SetReadDeadline(time.Now())
		u.mu.Unlock()
		if err == nil {
			u.reading <- struct{}{}
			<-u.reading
		}
	}
	return u.broken.Load()
}

// answer prepares the headers of the answer. If the body has not ended, the connection must be closed. Otherwise the
// rest of the body would be parsed as a request.
func (u *upload) answer(header http.Header) {
	if u != nil && u.http1 && !u.ended.Load() {
		header.Set("Connection", "close")
	}
}

// isLarge reports whether the request's body may be too large to be kept in memory.
func (h *Handler) isLarge(r *http.Request) bool {
	return r.ContentLength < 0 || r.ContentLength > h.maxBuffered
}

// drain reads the rest of a large body after an early answer, until the deadline of Close. Otherwise a client that is
// still sending over HTTP/1 would see a broken connection instead of the answer. Nothing is read if the client waits
// for 100 Continue (Expect), because such a client already has the answer.
func (u *upload) drain(r *http.Request) {
	if !u.http1 || u.ended.Load() || u.broken.Load() || !u.begun.Load() && r.Header.Get("Expect") != "" {
		return
	}
	if u.control.Flush() != nil { // some writers cannot flush
		return
	}
	u.reading <- struct{}{}                         // wait for a Read in progress
	_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // an error means that the client has disconnected
}

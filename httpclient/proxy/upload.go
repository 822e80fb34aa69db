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
)

// uploadKey is the key of a request's upload in its context.
type uploadKey struct{}

// upload is a request's body on its way.
type upload struct {
	io.ReadCloser
	begun, ended, broken atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	if !u.begun.Load() {
		u.begun.Store(true)
	}
	n, err := u.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		u.ended.Store(true)
	case err != nil:
		u.broken.Store(true)
	}
	return n, err
}

// isLarge reports a request whose body may not be kept in memory.
func (h *Handler) isLarge(r *http.Request) bool {
	return r.ContentLength < 0 || r.ContentLength > h.maxBuffered
}

// drain reads the rest of a large body whose request has been answered early. A client that is still sending it would otherwise see a
// broken connection instead of the answer. One that waits to be told to send it (Expect) has its answer.
func (u *upload) drain(w http.ResponseWriter, r *http.Request) {
	if u.ended.Load() || u.broken.Load() || !u.begun.Load() && r.Header.Get("Expect") != "" {
		return
	}
	control := http.NewResponseController(w)
	_ = control.Flush() // what cannot flush has sent nothing yet, as without this
	if control.SetReadDeadline(time.Now().Add(drainTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, maxDrained) // of a client that is gone
	_ = control.SetReadDeadline(time.Time{})
}

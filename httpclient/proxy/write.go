package proxy

import (
	"net/http"
	"time"
)

// writePatience bounds how long a write to a client may take. While the proxy writes nothing, a connection may stay
// open for longer than that.
const writePatience = 30 * time.Second

// responseWriter ends responses to clients that do not read them, if the server supports write deadlines.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{w, http.NewResponseController(w)}
}

// begin sets the deadline for the next write. After the handler has returned, the deadline applies to the bytes that
// the server has not sent yet.
func (w *responseWriter) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(writePatience)) }

// pause removes the deadline between writes, because over HTTP/2 a deadline ends the response even if nothing is
// written.
func (w *responseWriter) pause() { _ = w.control.SetWriteDeadline(time.Time{}) }

// WriteHeader writes a 1xx response at once, within a deadline. Any other header is written by a later Write or Flush,
// or by the server.
func (w *responseWriter) WriteHeader(status int) {
	if status < http.StatusOK {
		w.begin()
		defer w.pause()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.begin()
	defer w.pause()
	return w.ResponseWriter.Write(p)
}

func (w *responseWriter) FlushError() error {
	w.begin()
	defer w.pause()
	return w.control.Flush()
}

func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

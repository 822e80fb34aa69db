package proxy

import (
	"net/http"
	"time"
)

// writePatience bounds a write to a client that does not read. It does not bound connections on which nothing is
// written.
const writePatience = 30 * time.Second

// responseWriter ends responses to clients that do not read them, if the server supports write deadlines.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{w, http.NewResponseController(w)}
}

// begin sets the deadline for the next write, and for the bytes that the server sends after the handler has returned.
func (w *responseWriter) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(writePatience)) }

// pause removes the deadline between writes: over HTTP/2 it would end the response even if nothing is written.
func (w *responseWriter) pause() { _ = w.control.SetWriteDeadline(time.Time{}) }

// WriteHeader writes a 1xx response at once, and the header of any other response later.
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

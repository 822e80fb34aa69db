package proxy

import (
	"net/http"
	"time"
)

// writePatience is how long a client may leave its connection full. An idle one is not bounded by this.
const writePatience = 30 * time.Second

// responseWriter ends responses to clients that do not read them, of a server that can.
type responseWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func newResponseWriter(w http.ResponseWriter) *responseWriter {
	return &responseWriter{w, http.NewResponseController(w)}
}

// begin lets the next write take so long, and all that the server sends when its handler has returned.
func (w *responseWriter) begin() { _ = w.control.SetWriteDeadline(time.Now().Add(writePatience)) }

// pause says that nothing is being written: over HTTP/2 a deadline ends the response all the same.
func (w *responseWriter) pause() { _ = w.control.SetWriteDeadline(time.Time{}) }

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

package httpclient

import (
	"fmt"
	"time"
)

// DefaultAttemptTimeout is how long an attempt may make no progress, unless WithAttemptTimeout sets another duration.
const DefaultAttemptTimeout = 15 * time.Second

// WithAttemptTimeout sets how long one attempt may make no progress; then it ends with an *AttemptTimeoutError. Zero or
// less means no timeout. The default is DefaultAttemptTimeout. ContextWithAttemptTimeout overrides it for one request.
//
// Progress means that bytes are transferred: the base transport reads a part of the request's body, the headers of the
// response arrive, or a read of the response's body returns. Large uploads and downloads therefore have no timeout
// while they make progress. These times count:
//   - the time from the start of sending, or from the latest part of the body, until the headers of the response:
//     connecting, waiting for 100-continue or for the server to process the request, and waiting for the source of the
//     body. A body in memory (see below) of a known length up to 32 KiB is one part
//   - the time of each read of the response's body, and of its Close. While the body is not being read, there is no
//     timeout
//
// A body that is not in memory must give its first byte within the attempt timeout, in each attempt. If the body is
// read into memory first (see WithBufferedBodies), each of its parts must arrive within that time. The request waits
// for its limits after that.
//
// The time in queues and pauses does not count. A connection that was switched to another protocol (101) has no
// timeout.
//
// Closing a body may not end a blocked read of its source. A request whose body is not known to be in memory is
// therefore sent by a separate goroutine, which stays blocked in such a read after the timeout. Bodies are in memory if
// http.NewRequest makes them of a bytes.Buffer, bytes.Reader or strings.Reader, or if the transport keeps them.
//
// The timeout only finds broken connections: a server that sends a byte from time to time prolongs an attempt. To bound
// the whole time of a request, give its context a deadline.
func WithAttemptTimeout(d time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = max(d, 0) }
}

// AttemptTimeoutError is the error of an attempt that made no progress for too long. It does not match
// context.DeadlineExceeded, because no deadline of the caller has passed; its Timeout method returns true.
type AttemptTimeoutError struct {
	// Route is the method and template, without parameters.
	Route string
	// After is how long there was no progress.
	After time.Duration
}

func (e *AttemptTimeoutError) Error() string {
	return fmt.Sprintf("%s: no progress for %v", e.Route, e.After)
}

// Timeout returns true.
func (e *AttemptTimeoutError) Timeout() bool { return true }

// timeoutError is the error for an attempt of this request.
func (x *roundTrip) timeoutError() *AttemptTimeoutError {
	return &AttemptTimeoutError{Route: x.route(), After: x.attemptTimeout}
}

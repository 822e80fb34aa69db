package httpclient

import (
	"fmt"
	"time"
)

// DefaultAttemptTimeout is how long an attempt may make no progress, unless WithAttemptTimeout sets another duration.
const DefaultAttemptTimeout = 15 * time.Second

// WithAttemptTimeout sets how long one attempt may make no progress. After that time, the attempt ends with an
// *AttemptTimeoutError. Zero or less means no timeout. The default is DefaultAttemptTimeout. ContextWithAttemptTimeout
// overrides it for one request.
//
// Progress means that bytes are transferred: the base transport reads a part of the request's body, the headers of the
// response arrive, or a read of the response's body returns. Large uploads and downloads therefore do not time out
// while they make progress. The timeout bounds each of these times:
//   - the time from the start of sending, or from the latest read of a part of the request's body, until the next such
//     read or the headers of the response. This time includes connecting, waiting for 100-continue, waiting for the
//     source of the body, and waiting for the server to process the request. Reads of a body in memory (see below) of a
//     known length up to 32 KiB do not count as progress
//   - the time of each read of the response's body, and of its Close. There is no timeout while the caller is not
//     reading the body
//
// The first byte of a request's body that is not in memory must arrive within the attempt timeout, in each attempt. If
// the transport first reads the body into memory (see WithBufferedBodies), each further part must arrive within that
// time, too. The request waits for its limits after that.
//
// The timeout does not bound the time in queues and pauses, nor a connection that was switched to another protocol
// (101).
//
// Closing a body does not always end a blocked read of its source. A request whose body is not known to be in memory is
// therefore sent by a separate goroutine, which stays blocked in such a read after the timeout. A body is in memory if
// http.NewRequest makes it from a bytes.Buffer, bytes.Reader or strings.Reader, or if the transport keeps it in memory.
//
// The timeout finds broken connections, but does not bound the duration of an attempt, because a server can prolong the
// attempt by sending a byte from time to time. To bound the whole time of a request, give its context a deadline.
func WithAttemptTimeout(d time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = max(d, 0) }
}

// AttemptTimeoutError is the error of an attempt that made no progress for too long. It does not match
// context.DeadlineExceeded, because no deadline of the caller has passed, but its Timeout method returns true.
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

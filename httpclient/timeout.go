package httpclient

import (
	"fmt"
	"time"
)

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

// timeoutError returns the error for an attempt that made no progress.
func (x *roundTrip) timeoutError() *AttemptTimeoutError {
	return &AttemptTimeoutError{Route: x.route(), After: x.attempts.Timeout}
}

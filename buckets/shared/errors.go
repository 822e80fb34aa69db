package shared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ErrOutage matches every OutageError, for errors.Is.
var ErrOutage = errors.New("shared: the server of shared limits is unavailable")

// ErrClosed matches, for errors.Is, the errors of an Engine or a Runner that was closed for good. Then requests that
// need the server fail at once with an error that matches ErrClosed, whatever the outage policy.
var ErrClosed = errors.New("shared: store is closed")

// OutageError means that a request was not sent because the server that keeps the shared limits cannot be reached.
type OutageError struct {
	// Since is when the first call that failed began.
	Since time.Time
	// Policy is the outage policy of the store.
	Policy Outage
	// Cause is the error of the latest call that failed.
	Cause error
}

func (e *OutageError) Error() string {
	since := e.Since.Format(time.TimeOnly)
	return fmt.Sprintf("shared limits are unavailable since %s (policy %s): %v", since, e.Policy, e.Cause)
}

// Unwrap returns ErrOutage and the cause.
func (e *OutageError) Unwrap() []error { return []error{ErrOutage, e.Cause} }

// ErrorClass returns one word that says why the server cannot be used. The word contains no secret. If the error has a
// Class method, as *redis.Error does, the word is the result of that method. Otherwise the word is "foreign-key",
// "closed", "timeout", "unreachable" or "other".
func ErrorClass(err error) string {
	var classed interface{ Class() string }
	var key *KeyError
	var network net.Error
	switch {
	case errors.As(err, &classed):
		return classed.Class()
	case errors.As(err, &key):
		return "foreign-key"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.As(err, &network), errors.Is(err, io.EOF):
		return "unreachable"
	}
	return "other"
}

// KeyError means that a key of the protocol holds a value of another program, or of another version of Ratelight.
type KeyError struct {
	// Key is the name of the key.
	Key string
	// Problem says what is wrong with the key's value, for example "is no string".
	Problem string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("shared: key %q %s: delete it, or give this application another name", e.Key, e.Problem)
}

// keyProblem begins the error of a script about a key with a foreign value. The key's number, a space, the problem, and
// a semicolon follow.
const keyProblem = "RLKEY "

// keyError returns the KeyError for the error of a script, nil if that error is not about a key.
func keyError(err error, keys []string) error {
	_, text, ok := strings.Cut(err.Error(), keyProblem)
	if !ok {
		return nil
	}
	number, text, _ := strings.Cut(text, " ")
	n, numeric := strconv.Atoi(number)
	if numeric != nil || n < 1 || n > len(keys) {
		return nil
	}
	problem, _, _ := strings.Cut(text, ";")
	return &KeyError{Key: keys[n-1], Problem: problem}
}

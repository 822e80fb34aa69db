package shared

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrOutage is what every OutageError is, for errors.Is.
var ErrOutage = errors.New("shared: server of shared limits is away")

// ErrClosed is what a Runner fails with, for errors.Is, once it was closed for good. Whoever needs the server is then refused with the
// Runner's error at once, whatever the policy for outages.
var ErrClosed = errors.New("shared: store is closed")

// OutageError says that nothing was sent because the server that keeps the shared limits cannot be reached.
type OutageError struct {
	// Since is when that was first noticed.
	Since time.Time
	// Policy is what the store does about it.
	Policy Outage
	// Cause is what the last call failed with.
	Cause error
}

func (e *OutageError) Error() string {
	return fmt.Sprintf("shared limits are away since %s (policy %s): %v", e.Since.Format(time.TimeOnly), e.Policy, e.Cause)
}

// Unwrap returns ErrOutage and the cause.
func (e *OutageError) Unwrap() []error { return []error{ErrOutage, e.Cause} }

// KeyError says that a key of ours holds what we never put there. Somebody else uses it, or it belongs to another version.
type KeyError struct {
	// Key is the name of the key.
	Key string
	// Problem says what is wrong with it.
	Problem string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("shared: key %q %s: delete it, or give this application another name", e.Key, e.Problem)
}

// keyProblem is how a script says that a key is not ours: the word, the number of the key among its keys, and what is wrong, up to
// a semicolon.
const keyProblem = "RLKEY "

// keyError returns the KeyError that a script's error stands for, nil if it is none.
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

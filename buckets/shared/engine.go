package shared

import (
	"context"
	"time"
)

// Engine keeps the values that processes share. It only stores and compares the values; their meaning is known only to
// this package. [OnScripts] returns the Engine for Redis and Valkey. An Engine may also be a [Subscriber].
//
// A value is a text that begins with the version of the value and a space; the version contains no spaces. The engine
// deletes each value when the life of the value has ended. If the engine loses a value earlier, or goes back to an
// older one, this package detects it.
type Engine interface {
	// Exchange carries out the steps of a call atomically: no step of another call is carried out between them. Exchange
	// must not repeat a call whose reply was lost.
	//
	// Exchange returns at the latest when the context ends. An error that matches ErrClosed means that the engine will not
	// answer any more. A [*KeyError] says that a key does not hold a value of this protocol; the steps before the step
	// with that key may have been carried out. Exchange is safe for concurrent use.
	Exchange(ctx context.Context, call *Call) (*Reply, error)
}

// Call asks an Engine to carry out steps, one after the other.
type Call struct {
	// Purpose says in one word why the call is made. It appears in statistics and errors.
	Purpose string
	// NotAfter is the time, by the engine's clock since 1970, after which the call must have no effect, because the caller
	// has stopped waiting for the reply. If NotAfter is 0, there is no such time.
	NotAfter time.Duration
	// Guard is the version that the first step's key must have after the first step. If the key then has another version,
	// the engine skips all other steps. If Guard is empty, the engine skips no step.
	Guard string
	Steps []Step
}

// Step loads the value of a key and may replace it.
type Step struct {
	Key string
	// Value replaces the stored value if the stored value has the version Version, or if Version is "" and there is no
	// stored value. If Any is set, Value replaces any stored value. If Value is empty, the step only loads.
	Value   string
	Version string
	Any     bool
	// Life is how long the engine stores the new value, in whole milliseconds.
	Life time.Duration
	// If Value is stored, Message followed by Value is sent to each of the Channels. Messages may be lost.
	Channels []string
	Message  string
}

// Reply is an Engine's reply to a call.
type Reply struct {
	// Time is the time at which the call was carried out, by the engine's clock since 1970.
	Time time.Duration
	// Late reports that the call had no effect, because it reached the engine after NotAfter.
	Late bool
	// Values has an element for each step that was carried out.
	Values []Loaded
}

// Loaded is the result of a step.
type Loaded struct {
	// Replaced reports whether the step has stored its value.
	Replaced bool
	// Value is the stored value, "" if there is none. It is not set if Replaced is true.
	Value string
	// Life is how much longer the engine would have stored the value that it had before the step, 0 if it had none.
	Life time.Duration
}

// versionOf returns the version at the beginning of a value, "" if there is none.
func versionOf(value string) string {
	for i := range len(value) {
		if value[i] == ' ' {
			return value[:i]
		}
	}
	return ""
}

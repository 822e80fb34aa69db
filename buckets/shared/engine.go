package shared

import (
	"context"
	"time"
)

// Engine keeps the values that processes share. It stores and compares them; what they mean is decided here, in the
// processes. [OnScripts] is the one for Redis and Valkey. An Engine may also be a [Subscriber].
//
// A value is a text that begins with its version, which has no spaces, and a space. Each value has a life, after which
// the engine forgets it. The engine may also lose values, or go back to older ones; the package detects that.
type Engine interface {
	// Exchange carries out a call at one moment, or not at all: no step of another call comes between its steps. It
	// must not repeat a call whose reply was lost.
	//
	// It returns when the context ends at the latest. An error that matches ErrClosed means that the engine will never
	// answer again. A [*KeyError] says that a key holds something else than a value; steps before that key may have been
	// carried out. It is safe for concurrent use.
	Exchange(ctx context.Context, call *Call) (*Reply, error)
}

// Call asks an Engine to carry out steps, one after the other.
type Call struct {
	// Purpose is why the call is made, in a word: for statistics and errors.
	Purpose string
	// NotAfter is the time of the engine's clock, since 1970, after which the call has no effect, because its caller
	// does not wait for it any more. 0: there is no such time.
	NotAfter time.Duration
	// Guard is the version that the value of the first step must have after that step. Otherwise the other steps are
	// left out. Empty: they are not.
	Guard string
	Steps []Step
}

// Step loads the value of a key and may replace it.
type Step struct {
	Key string
	// Value replaces the value with the version Version; "" as Version means that there must be none. Any replaces
	// whatever there is. An empty Value only loads.
	Value   string
	Version string
	Any     bool
	// Life is how long the engine stores the new value, in whole milliseconds.
	Life time.Duration
	// Channels are sent Message and the new value if it replaces the old one. Messages may be lost.
	Channels []string
	Message  string
}

// Reply is an Engine's reply to a call.
type Reply struct {
	// Time is when the call was carried out, by the engine's clock since 1970.
	Time time.Duration
	// Late reports that the call had no effect, because it was later than NotAfter.
	Late bool
	// Values has an element for each step that was not left out.
	Values []Loaded
}

// Loaded is the result of a step.
type Loaded struct {
	// Replaced reports whether the step has replaced the value.
	Replaced bool
	// Value is the engine's value, "" if it has none. After a replacement it is not set.
	Value string
	// Life is how long the value that was there before the step would still have been stored, 0 if there was none.
	Life time.Duration
}

// versionOf returns the version with which a value begins, "" for none.
func versionOf(value string) string {
	for i := range len(value) {
		if value[i] == ' ' {
			return value[:i]
		}
	}
	return ""
}

package shared

import (
	"context"
	"time"
)

// Engine keeps the values that processes share. It only stores and compares them; this package gives them their
// meaning. [OnScripts] returns the Engine for Redis and Valkey. An Engine may also be a [Subscriber].
//
// A value is a text that begins with its version, which has no spaces, and a space. Each value has a life, after which
// the engine forgets it. The engine may also lose values, or go back to older ones; the package detects that.
type Engine interface {
	// Exchange carries out the steps of a call atomically: no step of another call comes between them. It must not repeat
	// a call whose reply was lost.
	//
	// Exchange returns when the context ends at the latest. An error that matches ErrClosed means that the engine will
	// never answer again. A [*KeyError] says that a key does not hold a value of this protocol; steps before that key
	// may have been carried out. Exchange is safe for concurrent use.
	Exchange(ctx context.Context, call *Call) (*Reply, error)
}

// Call asks an Engine to carry out steps, one after the other.
type Call struct {
	// Purpose is why the call is made, in a word: for statistics and errors.
	Purpose string
	// NotAfter is the time of the engine's clock, since 1970, after which the call must have no effect, because its
	// caller has stopped waiting. If it is 0, there is no such time.
	NotAfter time.Duration
	// Guard is the version that the value of the first step must have after that step. Otherwise the engine skips the
	// other steps. If Guard is empty, it skips none.
	Guard string
	Steps []Step
}

// Step loads the value of a key and may replace it.
type Step struct {
	Key string
	// Value replaces the stored value if that has the version Version, or if Version is "" and there is no stored
	// value. If Any is set, Value replaces whatever there is. If Value is empty, the step only loads.
	Value   string
	Version string
	Any     bool
	// Life is how long the engine stores the new value, in whole milliseconds.
	Life time.Duration
	// Channels are the channels to which Message and the new value are sent if the new value replaces the old one.
	// Messages may be lost.
	Channels []string
	Message  string
}

// Reply is an Engine's reply to a call.
type Reply struct {
	// Time is when the call was carried out, by the engine's clock since 1970.
	Time time.Duration
	// Late reports that the call had no effect, because it was later than NotAfter.
	Late bool
	// Values has an element for each step that was carried out.
	Values []Loaded
}

// Loaded is the result of a step.
type Loaded struct {
	// Replaced reports whether the step has replaced the value.
	Replaced bool
	// Value is the engine's value, "" if the engine has none. It is not set if the step has replaced the value.
	Value string
	// Life is how much longer the engine would have stored the value that was there before the step, 0 if there was
	// none.
	Life time.Duration
}

// versionOf returns the version with which a value begins, "" if there is none.
func versionOf(value string) string {
	for i := range len(value) {
		if value[i] == ' ' {
			return value[:i]
		}
	}
	return ""
}

package shared

import "context"

// Script is a program that the server runs atomically.
type Script struct {
	// Name is the name of the script, for errors.
	Name string
	// Source is the source text of the script, in Lua.
	Source string
}

// Runner runs scripts on a server. It is all that OnScripts and buckets/shared/spectacles need of a client library.
type Runner interface {
	// Run runs a script at most once, so it must not repeat a script whose reply was lost. All keys are in one slot of a
	// cluster. The reply of a script is a list of integers.
	//
	// An error that matches ErrClosed means that the Runner will run no more scripts.
	//
	// Run returns at the latest when the context ends. It is safe for concurrent use.
	Run(ctx context.Context, script *Script, keys []string, arguments ...string) ([]int64, error)
}

// Subscriber is an Engine or a Runner that can also receive messages. Without messages, a process may notice requests
// of other processes a second later than with messages.
type Subscriber interface {
	// Subscribe calls received for every message on a channel, and returns when the context ends. If the connection
	// breaks, Subscribe connects again by itself. It may return earlier with an error that matches ErrClosed.
	Subscribe(ctx context.Context, channel string, received func(message string)) error
}

package shared

import "context"

// Script is a program that the server runs as one step: nothing else happens there meanwhile.
type Script struct {
	// Name says what it does, for errors.
	Name string
	// Source is Lua.
	Source string
}

// Runner runs scripts on a server. It is all that the protocol needs of a client library.
type Runner interface {
	// Run runs a script once, or not at all: it must not repeat one whose reply was lost. All keys are in one slot of a
	// cluster. The reply of a script is a list of integers.
	//
	// An error that is ErrClosed says that it will never run one again.
	//
	// It returns when the context ends, at the latest. It is safe for concurrent use.
	Run(ctx context.Context, script *Script, keys []string, arguments ...string) ([]int64, error)
}

// Subscriber is a Runner that can also listen. Without it, wishes of other processes are noticed a second later.
type Subscriber interface {
	// Subscribe calls received for every message on a channel until the context ends, and then returns; it connects again by
	// itself. With an error that is ErrClosed it may return before.
	Subscribe(ctx context.Context, channel string, received func(message string)) error
}

package buckets

import "errors"

var (
	// ErrNotStarted is returned by Acquire before Start. Call Start once before the first request.
	ErrNotStarted = errors.New("rest bucket manager is not started: call Start first")
	// ErrClosed is returned by Acquire after Close, and to everybody who waits when Close is called.
	ErrClosed = errors.New("closed: the rest bucket manager, or the transport")
	// ErrStarted is returned by Start if the manager runs already.
	ErrStarted = errors.New("rest bucket manager is started already")
	// ErrNoContext is returned by Acquire for a nil context. Pass context.Background() to wait without a bound.
	ErrNoContext = errors.New("context is nil: pass context.Background() if there is none")
	// ErrNoRoute is returned by Acquire for the zero compiled route. Get one from routes.Match or from a route's Compile.
	ErrNoRoute = errors.New("compiled route is empty: get one from routes.Match or Route.Compile")
)

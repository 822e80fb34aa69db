package httpclient

import (
	"context"
	"time"
)

// requestConfig is what a context says about the requests made with it.
type requestConfig struct {
	retry      retryMode
	timeout    time.Duration
	hasTimeout bool
}

type requestConfigKey struct{}

func requestConfigOf(ctx context.Context) requestConfig {
	t, _ := ctx.Value(requestConfigKey{}).(requestConfig)
	return t
}

// retryMode is what a context says about repeating requests.
type retryMode int

const (
	retrySafe retryMode = iota
	retryAlways
	retryNever
)

// ContextWithUnsafeRetries lets the requests made with the context be repeated after failures whatever their method: the caller knows that
// it does no harm if Discord carries them out twice. The latest of this and ContextWithoutRetries counts.
func ContextWithUnsafeRetries(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.retry = retryAlways
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// ContextWithoutRetries keeps the requests made with the context from being repeated after failures. Refusals by a limit are
// repeated all the same; see buckets.ContextWithMaxWait for those.
func ContextWithoutRetries(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.retry = retryNever
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// ContextWithAttemptTimeout overrides WithAttemptTimeout for the requests made with the context: for a route that Discord takes
// long to answer, say. It bounds the time without progress, too, and not that of the whole attempt.
func ContextWithAttemptTimeout(ctx context.Context, d time.Duration) context.Context {
	t := requestConfigOf(ctx)
	t.timeout, t.hasTimeout = max(d, 0), true
	return context.WithValue(ctx, requestConfigKey{}, t)
}

package httpclient

import (
	"context"
	"time"
)

// requestConfig holds the options that a context sets for its requests.
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

// retryMode says which requests of a context are repeated after failures.
type retryMode int

const (
	retrySafe retryMode = iota
	retryAlways
	retryNever
)

// ContextWithUnsafeRetries lets the requests made with the context be repeated after failures, whatever their method.
// Use it where it does no harm if Discord processes them twice. If ContextWithoutRetries is used as well, the later one
// counts.
func ContextWithUnsafeRetries(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.retry = retryAlways
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// ContextWithoutRetries stops the requests made with the context from being repeated after failures. They are still
// repeated after a 429; see buckets.ContextWithMaxWait for those.
func ContextWithoutRetries(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.retry = retryNever
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// ContextWithAttemptTimeout overrides WithAttemptTimeout for the requests made with the context, for example for a
// route with slow responses. It bounds the time without progress, not the duration of the attempt.
func ContextWithAttemptTimeout(ctx context.Context, d time.Duration) context.Context {
	t := requestConfigOf(ctx)
	t.timeout, t.hasTimeout = max(d, 0), true
	return context.WithValue(ctx, requestConfigKey{}, t)
}

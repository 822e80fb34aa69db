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

// ContextWithUnsafeRetries lets the requests made with the context be repeated after failures whatever their method.
// Use it where it does no harm if Discord processes them twice. Of this and ContextWithoutRetries the later one counts.
func ContextWithUnsafeRetries(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.retry = retryAlways
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// ContextWithoutRetries lets the requests made with the context not be repeated after failures. They are still repeated
// after a 429; see buckets.ContextWithMaxWait for those.
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

package httpclient

import (
	"context"
	"time"
)

const (
	// DefaultRetries is how often a request is repeated after a failure, unless WithRetries says otherwise (hikari's default).
	DefaultRetries = 3
	// DefaultMaxRetryDuration is for how long after the first attempt others are begun, unless WithMaxRetryDuration says otherwise.
	DefaultMaxRetryDuration = 2 * time.Minute
	// DefaultBackoff and DefaultMaxBackoff are the first pause between attempts and the longest, unless WithBackoff says
	// otherwise.
	DefaultBackoff    = 500 * time.Millisecond
	DefaultMaxBackoff = 16 * time.Second
)

// retrying are the settings of what is repeated after a failure.
type retrying struct {
	times   int
	within  time.Duration
	unit    time.Duration
	maximum time.Duration
	unsafe  bool
}

// WithRetries sets how often a request is repeated after a failure that will pass: a connection that broke, an attempt without
// progress, and the statuses 500, 502, 503, 504, 520 to 524 and 529. Zero or less means never.
//
// Repeated are requests that do no harm when Discord carries them out twice: GET, HEAD, OPTIONS, PUT and DELETE; messages with
// a nonce and enforce_nonce; any that certainly never left; and those of ContextWithUnsafeRetries and WithUnsafeRetries. Refusals by a
// limit (429) do not count and are always repeated. The default is DefaultRetries.
//
// Below it, an http.Transport repeats a GET, HEAD or OPTIONS once more by itself when a kept HTTP/1.1 connection turns out to be broken;
// that is one attempt here, and one request for the limits. Over HTTP/2 it does so only with what the server has not processed.
func WithRetries(n int) Option {
	return func(s *settings) { s.retrying.times = max(n, 0) }
}

// WithMaxRetryDuration sets for how long after the first attempt others are begun. Zero or less means no bound but the number. The default
// is DefaultMaxRetryDuration.
func WithMaxRetryDuration(d time.Duration) Option {
	return func(s *settings) { s.retrying.within = max(d, 0) }
}

// WithBackoff sets the first pause before another attempt; it doubles each time, up to maximum, and varies by a quarter of the first.
// A longer Retry-After of a server error is obeyed up to the maximum. Zero or less means the default, which is
// DefaultBackoff and DefaultMaxBackoff; a maximum below the first pause means the first pause.
func WithBackoff(first, maximum time.Duration) Option {
	return func(s *settings) {
		if first <= 0 {
			first = DefaultBackoff
		}
		if maximum <= 0 {
			maximum = DefaultMaxBackoff
		}
		s.retrying.unit, s.retrying.maximum = first, max(first, maximum)
	}
}

// WithUnsafeRetries repeats POST and PATCH after failures like all other methods. Discord may then carry them out twice: a
// message may appear twice.
func WithUnsafeRetries() Option {
	return func(s *settings) { s.retrying.unsafe = true }
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
	t := tuningOf(ctx)
	t.retry = retryAlways
	return context.WithValue(ctx, tuningKey{}, t)
}

// ContextWithoutRetries keeps the requests made with the context from being repeated after failures. Refusals by a limit are
// repeated all the same; see buckets.ContextWithMaxWait for those.
func ContextWithoutRetries(ctx context.Context) context.Context {
	t := tuningOf(ctx)
	t.retry = retryNever
	return context.WithValue(ctx, tuningKey{}, t)
}

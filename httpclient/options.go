package httpclient

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/sparselog"
	"github.com/ratelight/ratelight/internal/wire"
)

// DefaultMaxBufferedBody is the largest body, in bytes, that is kept in memory so that its request can be repeated,
// unless WithBufferedBodies sets another size.
const DefaultMaxBufferedBody = 1 << 20

// DefaultMaxBufferedTotal is the largest total size, in bytes, of the bodies of all requests that are kept in memory,
// unless WithBufferedBodies sets another size.
const DefaultMaxBufferedTotal = 64 << 20

// ErrOptions is the error of every request if options of NewTransport exclude each other or cannot be used. It is also
// the error of a single request if the Attempts that its context sets cannot be used. The returned errors wrap
// ErrOptions.
var ErrOptions = buckets.ErrOptions

// Option configures a Transport.
type Option func(*settings)

type settings struct {
	base     http.RoundTripper
	limiter  Limiter
	buckets  []buckets.Option
	stateKey wire.Secret
	ofOwn    string // the latest option that excludes WithLimiter, "" if there is none
	hooks    Hooks
	behaviour
}

// behaviour is the part of the settings that a transport keeps.
type behaviour struct {
	hosts               hosts
	dialects            map[string]Dialect // by serverName; a server without an entry has Discord's dialect
	maxBufferedBody     int64
	maxBufferedTotal    int64
	withoutLimitHeaders bool
	attempts            Attempts
	log                 *sparselog.Log // nil means that nothing is logged
}

// conflict returns the error for options that exclude each other, nil if none do.
func (s *settings) conflict() error {
	if s.limiter == nil || s.ofOwn == "" {
		return nil
	}
	return fmt.Errorf("%w: %s and WithLimiter exclude each other: expected one, because a limiter has its own options",
		ErrOptions, s.ofOwn)
}

func defaults() settings {
	return settings{behaviour: behaviour{
		log:              sparselog.New(nil),
		maxBufferedBody:  DefaultMaxBufferedBody,
		maxBufferedTotal: DefaultMaxBufferedTotal,
		attempts: Attempts{
			Retries: DefaultRetries, Mode: SafeRetries, Timeout: DefaultAttemptTimeout,
			FirstPause: DefaultFirstPause, MaxPause: DefaultMaxPause,
		},
	}}
}

// WithBase sets the transport that sends the requests. The default, which is also used if base is nil, is a copy of
// http.DefaultTransport. The copy pings an HTTP/2 connection on which nothing has arrived for 15 s, and closes the
// connection if no reply arrives within 5 s. A base that you set is used unchanged. To get the same pings with such a
// base, set the field HTTP2 of an http.Transport to &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5
// * time.Second}. Without pings, a dead connection is closed only when an attempt on it times out. If other attempts
// use the connection at that time, it is closed only if nothing has been transferred on it for twice the attempt
// timeout.
func WithBase(base http.RoundTripper) Option {
	return func(s *settings) { s.base = base }
}

// WithMaxRateLimit sets the longest predicted wait that is accepted, see buckets.WithMaxRateLimit. If both
// WithMaxRateLimit and buckets.WithMaxRateLimit are used, the one that comes later among the options counts. With zero
// or less, requests that would have to wait are rejected. The default is buckets.DefaultMaxRateLimit. WithMaxRateLimit
// excludes WithLimiter, because a limiter has its own bound.
func WithMaxRateLimit(d time.Duration) Option {
	return func(s *settings) {
		s.buckets, s.ofOwn = append(s.buckets, buckets.WithMaxRateLimit(d)), "WithMaxRateLimit"
	}
}

// WithBuckets passes options to the transport's own bucket manager. WithBuckets excludes WithLimiter, because a
// transport with another limiter has no manager of its own.
func WithBuckets(options ...buckets.Option) Option {
	return func(s *settings) {
		if len(options) > 0 {
			s.buckets, s.ofOwn = append(s.buckets, options...), "WithBuckets"
		}
	}
}

// WithLimiter makes the transport use a limiter that the caller owns. The limiter can be a bucket manager or another
// Limiter. The caller starts and closes it. Several transports can share it. Nil is ignored.
func WithLimiter(limiter Limiter) Option {
	return func(s *settings) {
		if !isNil(limiter) {
			s.limiter = limiter
		}
	}
}

// WithoutRateLimitHeaders removes the rate limit headers from the responses that the transport returns, so that a
// limiter in the library above the transport does not act on them. These headers are X-RateLimit and X-RateLimit-*,
// RateLimit and RateLimit-*, and the Retry-After of a 403 or 429.
func WithoutRateLimitHeaders() Option {
	return func(s *settings) { s.withoutLimitHeaders = true }
}

// WithBufferedBodies sets how many bytes of memory may hold the bodies of requests without GetBody, so that these
// requests can be repeated. The parameter each is the largest size of one body, and total bounds the bodies of all
// requests together. If each or total is zero or less, no body is kept. The defaults are DefaultMaxBufferedBody and
// DefaultMaxBufferedTotal.
//
// The total includes the bodies of requests that wait, and of requests whose response has not been read or closed yet.
// If a body is larger than each, or if there is no room for it, the body is not kept. Its request is neither refused
// nor delayed, but the body can be sent only once. Therefore a 429 or a 5xx to the request is returned unchanged. If
// the request fails in another way that would allow a retry, the error is a *RetryError with ErrNotRepeatable.
func WithBufferedBodies(each, total int64) Option {
	return func(s *settings) { s.maxBufferedBody, s.maxBufferedTotal = max(each, 0), max(total, 0) }
}

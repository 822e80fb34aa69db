package httpclient

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// DefaultRetries is how often a request is repeated after failures, unless Attempts.Retries sets another number. The
	// number is the default of hikari, a Discord library for Python.
	DefaultRetries = 3
	// NoRetries is the value of Attempts.Retries with which no request is repeated after a failure.
	NoRetries = -1
	// DefaultAttemptTimeout is how long an attempt may make no progress, unless Attempts.Timeout sets another duration.
	DefaultAttemptTimeout = 15 * time.Second
	// DefaultFirstPause and DefaultMaxPause are the first and the longest pause between attempts, unless
	// Attempts.FirstPause and Attempts.MaxPause set other pauses.
	DefaultFirstPause = 500 * time.Millisecond
	DefaultMaxPause   = 16 * time.Second
)

// Attempts says how long an attempt to send a request may make no progress, which requests are repeated after a
// temporary failure, how often, and after which pauses. WithAttempts sets this for a transport, and ContextWithAttempts
// for the requests made with a context.
//
// A field that is zero changes nothing. WithAttempts then keeps the value of an earlier WithAttempts, or the default.
// ContextWithAttempts keeps the value of an outer ContextWithAttempts, or of the transport. If Retries is less than
// NoRetries, a pause is negative, or Mode is none of the constants, the requests fail with ErrOptions.
type Attempts struct {
	// Retries is how often a request is repeated after a temporary failure: a broken connection, an attempt without
	// progress, and the statuses 500, 502, 503, 504, 520 to 524 and 529. The default is DefaultRetries.
	// NoRetries turns retries off; zero does not.
	//
	// Only requests that Mode allows are repeated. No retry begins more than two minutes after the start of the first
	// attempt that failed. Sending a request again after a 429 is not a retry: it needs no option, and does not count.
	//
	// If the base is an http.Transport, it also repeats a GET, HEAD or OPTIONS by itself when an HTTP/1.1 connection that
	// was kept alive turns out to be broken. The Transport does not notice such a repetition: it belongs to the same
	// attempt, and the limits count only one request. Over HTTP/2 an http.Transport repeats only requests that the server
	// has not processed.
	Retries int

	// Mode says which requests are repeated. The default is SafeRetries.
	Mode RetryMode

	// Timeout is how long one attempt may make no progress. After that time, the attempt ends with an
	// *AttemptTimeoutError. The default is DefaultAttemptTimeout. A negative value means that there is no timeout.
	//
	// Progress means that bytes are transferred: the base transport reads a part of the request's body, the headers of
	// the response arrive, or a read of the response's body returns. Large uploads and downloads therefore do not time
	// out while they make progress. The timeout bounds each of these times:
	//   - the time from the start of sending, or from the latest read of a part of the request's body, until the next such
	//     read or the headers of the response. This time includes connecting, waiting for 100-continue, waiting for the
	//     source of the body, and waiting for the server to process the request. Reads of a body in memory (see below) do
	//     not count as progress if the length of the body is known and at most 32 KiB
	//   - the time of each read of the response's body, and of Close of that body. While the caller is not reading the
	//     body, there is no timeout
	//
	// If a request's body is not in memory, the first byte of the body must arrive within the timeout in each attempt. If
	// the transport first reads the body into memory (see WithBufferedBodies), each further part must also arrive within
	// the timeout. Only after these reads does the request wait for its limits.
	//
	// The timeout does not bound the time in queues and pauses. It does not apply to a connection that was switched to
	// another protocol (status 101).
	//
	// Closing a body does not always end a blocked read of its source. Therefore, if a body is not known to be in memory,
	// a separate goroutine sends the request. If a read is still blocked after the timeout, that goroutine stays blocked
	// in the read. A body is in memory if http.NewRequest makes it from a bytes.Buffer, bytes.Reader or strings.Reader, or
	// if the transport keeps it in memory.
	//
	// The timeout detects broken connections, but does not bound the duration of an attempt, because a server can prolong
	// the attempt by sending a byte from time to time. To bound the whole time of a request, give its context a deadline.
	Timeout time.Duration

	// FirstPause is the first pause before another attempt, and MaxPause the longest. The pause doubles each time, up to
	// MaxPause. In addition, each pause is made longer or shorter at random, by up to a quarter of FirstPause. If a server
	// error asks for a longer pause with Retry-After, that pause is used, up to MaxPause. The defaults are
	// DefaultFirstPause and DefaultMaxPause. A MaxPause that is set alone also bounds FirstPause. Otherwise, if FirstPause
	// exceeds MaxPause, FirstPause is also the longest pause.
	FirstPause, MaxPause time.Duration

	// Nonce adds a random nonce of 25 characters and the field enforce_nonce to each message that is created in a channel
	// (POST /channels/{channel_id}/messages). With the nonce, SafeRetries can repeat such a request, too, after a failure.
	// The message still appears only once, because for a few minutes Discord responds to the second request with the
	// message of the first request (Discord's documentation). All attempts have the same nonce. The message in Discord's
	// response and in the gateway event also has this nonce.
	//
	// The body is sent unchanged in each of these cases:
	//   - it is not a JSON object, or its Content-Type is not JSON (such as a form with files)
	//   - it already has a "nonce" or an "enforce_nonce"
	//   - it is encoded, is larger than 1 MiB, can be sent only once, or has trailers
	//   - there is no room for a copy, see WithBufferedBodies
	//
	// Discord has no such nonces for webhooks and interactions.
	Nonce bool
}

// RetryMode says which requests are repeated after a failure. The zero value is none of the constants. In Attempts, it
// leaves the mode unchanged. In every mode, a request is sent again after a 429. buckets.ContextWithMaxWait limits how
// long the request waits before it is sent again.
type RetryMode int

const (
	// SafeRetries repeats a request only if it does no harm when Discord processes it twice: GET, HEAD, OPTIONS, PUT and
	// DELETE; messages with a nonce and enforce_nonce; and requests that were certainly not sent. It is the default.
	SafeRetries RetryMode = iota + 1
	// UnsafeRetries repeats all requests, including POST and PATCH. Discord may then process a request twice, and a
	// message may appear twice. Use it for requests that do no harm if Discord processes them twice.
	UnsafeRetries
)

// WithAttempts sets those fields of the transport's Attempts that are not zero in the argument.
func WithAttempts(a Attempts) Option {
	return func(s *settings) { s.attempts = s.attempts.overriddenBy(a) }
}

// ContextWithAttempts returns a context. For the requests made with it, the fields of a that are not zero replace those
// of the transport's Attempts. For example, set Timeout for a route with slow responses, or the Mode UnsafeRetries for
// requests that do no harm if Discord processes them twice.
func ContextWithAttempts(ctx context.Context, a Attempts) context.Context {
	t := requestConfigOf(ctx)
	t.attempts = t.attempts.overriddenBy(a)
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// overriddenBy returns a copy of a with those fields of b that are not zero.
func (a Attempts) overriddenBy(b Attempts) Attempts {
	if b.MaxPause > 0 {
		a.FirstPause = min(a.FirstPause, b.MaxPause)
	}
	return Attempts{
		Retries:    cmp.Or(b.Retries, a.Retries),
		Mode:       cmp.Or(b.Mode, a.Mode),
		Timeout:    cmp.Or(b.Timeout, a.Timeout),
		FirstPause: cmp.Or(b.FirstPause, a.FirstPause),
		MaxPause:   cmp.Or(b.MaxPause, a.MaxPause),
		Nonce:      a.Nonce || b.Nonce,
	}
}

// validate returns an error if a field has an invalid value, nil otherwise.
func (a Attempts) validate() error {
	switch {
	case a.Retries < NoRetries:
		return fmt.Errorf("%w: Attempts.Retries %d: expected a number of retries or NoRetries", ErrOptions, a.Retries)
	case a.Mode < 0 || a.Mode > UnsafeRetries:
		return fmt.Errorf("%w: Attempts.Mode %d: expected SafeRetries or UnsafeRetries", ErrOptions, a.Mode)
	case a.FirstPause < 0 || a.MaxPause < 0:
		return fmt.Errorf("%w: Attempts with the pauses %v and %v: expected 0 or more", ErrOptions, a.FirstPause, a.MaxPause)
	}
	return nil
}

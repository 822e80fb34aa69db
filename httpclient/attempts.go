package httpclient

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// DefaultRetries is how often a request is repeated after failures, unless Attempts.Retries sets another number. It
	// is the default of hikari, a Discord library for Python.
	DefaultRetries = 3
	// DefaultAttemptTimeout is how long an attempt may make no progress, unless Attempts.Timeout sets another duration.
	DefaultAttemptTimeout = 15 * time.Second
	// DefaultFirstPause and DefaultMaxPause are the first and the longest pause between attempts, unless
	// Attempts.FirstPause and Attempts.MaxPause set other pauses.
	DefaultFirstPause = 500 * time.Millisecond
	DefaultMaxPause   = 16 * time.Second
)

// Attempts says how a request is attempted: how long an attempt may make no progress, whether and how often the request
// is repeated after a temporary failure, after which pauses, and what makes that safe. WithAttempts sets this for a
// transport, and ContextWithAttempts for the requests made with a context.
//
// A field that is zero changes nothing. WithAttempts then keeps the value of an earlier WithAttempts, or the default.
// ContextWithAttempts keeps the value of an outer ContextWithAttempts, or of the transport. If Retries or a pause is
// negative, or if Mode is none of the constants, the requests fail with ErrOptions.
type Attempts struct {
	// Retries is how often a request is repeated after a temporary failure: a broken connection, an attempt without
	// progress, and the statuses 500, 502, 503, 504, 520 to 524 and 529. The default is DefaultRetries. The Mode
	// NoRetries turns retries off; zero does not.
	//
	// Only requests that Mode allows are repeated. No retry begins more than two minutes after the start of the first
	// attempt that failed. The repetition of a request after a 429 is no retry: it needs no option, and does not count.
	//
	// The http.Transport below also repeats a GET, HEAD or OPTIONS by itself when a kept HTTP/1.1 connection turns out
	// to be broken. The transport does not notice such a repetition: it belongs to the same attempt, and the limits
	// count only one request. Over HTTP/2 the http.Transport repeats only requests that the server has not processed.
	Retries int

	// Mode says which requests are repeated. The default is SafeRetries.
	Mode RetryMode

	// Timeout is how long one attempt may make no progress. After that time, the attempt ends with an
	// *AttemptTimeoutError. The default is DefaultAttemptTimeout. Negative means no timeout.
	//
	// Progress means that bytes are transferred: the base transport reads a part of the request's body, the headers of
	// the response arrive, or a read of the response's body returns. Large uploads and downloads therefore do not time
	// out while they make progress. The timeout bounds each of these times:
	//   - the time from the start of sending, or from the latest read of a part of the request's body, until the next
	//     such read or the headers of the response. This time includes connecting, waiting for 100-continue, waiting
	//     for the source of the body, and waiting for the server to process the request. Reads of a body in memory (see
	//     below) of a known length up to 32 KiB do not count as progress
	//   - the time of each read of the response's body, and of its Close. There is no timeout while the caller is not
	//     reading the body
	//
	// The first byte of a request's body that is not in memory must arrive within the timeout, in each attempt. If the
	// transport first reads the body into memory (see WithBufferedBodies), each further part must arrive within that
	// time, too. The request waits for its limits after that.
	//
	// The timeout does not bound the time in queues and pauses, nor a connection that was switched to another protocol
	// (101).
	//
	// Closing a body does not always end a blocked read of its source. A request whose body is not known to be in
	// memory is therefore sent by a separate goroutine, which stays blocked in such a read after the timeout. A body is
	// in memory if http.NewRequest makes it from a bytes.Buffer, bytes.Reader or strings.Reader, or if the transport
	// keeps it in memory.
	//
	// The timeout finds broken connections, but does not bound the duration of an attempt, because a server can prolong
	// the attempt by sending a byte from time to time. To bound the whole time of a request, give its context a
	// deadline.
	Timeout time.Duration

	// FirstPause is the first pause before another attempt, and MaxPause the longest. The pause doubles each time, up
	// to MaxPause. Then each pause is made longer or shorter at random, by up to a quarter of FirstPause. If a server
	// error asks for a longer pause with Retry-After, that is obeyed, up to MaxPause. The defaults are DefaultFirstPause
	// and DefaultMaxPause. A MaxPause below FirstPause, whether set or by default, means FirstPause.
	FirstPause, MaxPause time.Duration

	// Nonce gives each message that is created in a channel (POST /channels/{channel_id}/messages) a random nonce of 25
	// characters and enforce_nonce. SafeRetries then repeats the request, and the message appears only once, because
	// for a few minutes Discord responds to the second request with the message of the first one (Discord's
	// documentation). All attempts have the same nonce. The message in Discord's response and in its gateway event has
	// this nonce, too.
	//
	// A body is sent unchanged if it is not a JSON object, or not of a JSON Content-Type (such as a form with files), if
	// it already has a "nonce" or "enforce_nonce", if it is encoded, larger than 1 MiB, can be sent only once or has
	// trailers, or if there is no room for a copy, see WithBufferedBodies. Discord has no such nonces for webhooks and
	// interactions.
	Nonce bool
}

// RetryMode says which requests are repeated after a failure. Its zero value is none of the constants, and keeps the
// earlier Mode, see Attempts. In all modes, requests are repeated after a 429; buckets.ContextWithMaxWait limits how
// long they wait for that.
type RetryMode int

const (
	// SafeRetries repeats a request only if it does no harm when Discord processes it twice: GET, HEAD, OPTIONS, PUT and
	// DELETE; messages with a nonce and enforce_nonce; and requests that were certainly not sent. It is the default.
	SafeRetries RetryMode = iota + 1
	// UnsafeRetries repeats all requests, also POST and PATCH. Discord may then process a request twice, and a message
	// may appear twice. Use it for requests that do no harm if Discord processes them twice.
	UnsafeRetries
	// NoRetries repeats no request, whatever Attempts.Retries is.
	NoRetries
)

// WithAttempts sets how requests are attempted: the fields of a that are not zero. If the option is used again, the
// fields that are zero there stay as they are. ContextWithAttempts overrides fields for one request.
func WithAttempts(a Attempts) Option {
	return func(s *settings) { s.attempts = s.attempts.overriddenBy(a) }
}

// ContextWithAttempts overrides WithAttempts for the requests made with the context: the fields of a that are not zero.
// For example, set Timeout for a route with slow responses, or the Mode UnsafeRetries for requests that do no harm if
// Discord processes them twice. The other fields are those of an outer ContextWithAttempts or of the transport.
func ContextWithAttempts(ctx context.Context, a Attempts) context.Context {
	t := requestConfigOf(ctx)
	t.attempts = t.attempts.overriddenBy(a)
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// overriddenBy returns a, with the fields of b that are not zero.
func (a Attempts) overriddenBy(b Attempts) Attempts {
	return Attempts{
		Retries:    cmp.Or(b.Retries, a.Retries),
		Mode:       cmp.Or(b.Mode, a.Mode),
		Timeout:    cmp.Or(b.Timeout, a.Timeout),
		FirstPause: cmp.Or(b.FirstPause, a.FirstPause),
		MaxPause:   cmp.Or(b.MaxPause, a.MaxPause),
		Nonce:      a.Nonce || b.Nonce,
	}
}

// validate returns an error for a field that cannot be used, nil if there is none.
func (a Attempts) validate() error {
	switch {
	case a.Retries < 0:
		return fmt.Errorf("%w: Attempts.Retries %d: expected 0 or more; for none, Mode NoRetries", ErrOptions, a.Retries)
	case a.Mode < 0 || a.Mode > NoRetries:
		return fmt.Errorf("%w: Attempts.Mode %d: expected SafeRetries, UnsafeRetries or NoRetries", ErrOptions, a.Mode)
	case a.FirstPause < 0 || a.MaxPause < 0:
		return fmt.Errorf("%w: Attempts with the pauses %v and %v: expected 0 or more", ErrOptions, a.FirstPause, a.MaxPause)
	}
	return nil
}

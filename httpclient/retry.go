package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// retryTime bounds the time from the start of the first failed attempt to the start of the last attempt. Discord
// remembers the nonce of a message for "a few minutes" (Discord's documentation). The last attempt must arrive before
// Discord forgets the nonce.
const retryTime = 2 * time.Minute

// RetryError is the error of a request that got no response although it was repeated, or that could not be repeated
// because of its body or because of a bound on retries. If the last attempt got a response, RoundTrip returns this
// response unchanged, whatever its status, and no RetryError.
type RetryError struct {
	// Route is the method and template, without parameters.
	Route string
	// Attempts is the number of attempts, at least 1.
	Attempts int
	// Reason says why there was no further attempt.
	Reason error
	// Err is the error of the last attempt. If GetBody or the wait for a limit failed before the next attempt, Err is the
	// error of GetBody or of that wait.
	Err error
}

func (e *RetryError) Error() string {
	attempts := "1 attempt"
	if e.Attempts > 1 {
		attempts = fmt.Sprintf("%d attempts", e.Attempts)
	}
	return fmt.Sprintf("%s failed after %s, not repeated because %v: %v", e.Route, attempts, e.Reason, e.Err)
}

// Unwrap returns Err and Reason, for errors.Is and errors.As.
func (e *RetryError) Unwrap() []error { return []error{e.Err, e.Reason} }

// Timeout reports whether Err is a timeout.
func (e *RetryError) Timeout() bool { return isTimeout(e.Err) }

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// These are the reasons why a request is not repeated, see RetryError.
var (
	// ErrRetriesUsedUp means that the request was already repeated as often as Attempts.Retries allows.
	ErrRetriesUsedUp = errors.New("all retries are used up")
	// ErrMaxRetryDuration means that the next attempt would begin more than two minutes after the start of the first
	// attempt that failed.
	ErrMaxRetryDuration = errors.New("the time for retries has passed")
	// ErrNotRepeatable means that the request's body can be sent only once. Set GetBody, or raise a bound of
	// WithBufferedBodies.
	ErrNotRepeatable = errors.New("its body can be sent only once")

	errTooLate = errors.New("the wait for its limit took too long")
	errUnsafe  = errors.New("it may have been processed")
	errOver    = errors.New("its context has ended or will end before the next attempt, or the transport is closed")
	errLasting = errors.New("it would fail again")
)

// retry counts the attempts of one request.
type retry struct {
	first    time.Time // when the first attempt that failed was sent
	latest   time.Time // when the latest attempt was sent
	attempts int
	failures int           // retries so far
	asked    time.Duration // the wait that the latest response asks for, 0 if it asks for none
	backoff  *ratelimits.Backoff
	again    bool // the next attempt follows a failure
	reason   RetryReason
	doubtful bool // Discord may have created the message, and only its nonce makes repetitions safe
}

// nextRetry returns the pause before the next attempt, or the reason why there is none.
func (x *roundTrip) nextRetry(err error) (time.Duration, error) {
	r, a := &x.retry, &x.attempts
	select {
	case <-x.request.Cancel: //lint:ignore SA1019 the base transport may have ended the attempt because of it
		return 0, errOver
	default:
	}
	switch {
	case x.request.Context().Err() != nil || x.life.Err() != nil:
		return 0, errOver
	case x.permanentFailure(err):
		return 0, errLasting
	case !x.safeToRepeat(err):
		return 0, errUnsafe
	case !x.body.repeatable():
		return 0, ErrNotRepeatable
	case r.failures >= a.Retries:
		return 0, ErrRetriesUsedUp
	}
	if r.failures == 0 {
		r.first = r.latest
	}
	longest := max(a.FirstPause, a.MaxPause)
	if r.backoff == nil {
		r.backoff, _ = ratelimits.NewBackoff(a.FirstPause, 2, longest, a.FirstPause/4) // no error: both pauses are positive
	}
	pause := max(r.backoff.Next(), min(r.asked, longest))
	if time.Since(r.first)+pause > retryTime {
		return 0, ErrMaxRetryDuration
	}
	if deadline, ok := x.request.Context().Deadline(); ok && time.Until(deadline) < pause {
		return 0, errOver // the deadline would pass during the pause
	}
	r.failures++
	r.again = true
	return pause, nil
}

// retryReason returns why a request is sent again after a failure.
func retryReason(response *http.Response, err error) RetryReason {
	switch {
	case response != nil:
		return RetryServerError
	case isTimeout(err):
		return RetryTimeout
	}
	return RetryConnection
}

// finish returns the outcome of the last attempt: the response unchanged, or the error. If the request was repeated
// after a failure, or if only a bound on retries or the request's body prevented a repetition, finish wraps the error
// in a *RetryError.
func (x *roundTrip) finish(response *http.Response, reason, err error) (*http.Response, error) {
	if err == nil {
		return response, nil
	}
	asItCame := reason == errOver || reason == errUnsafe || reason == errLasting
	if x.retry.failures == 0 && asItCame {
		return nil, err
	}
	return nil, x.newRetryError(reason, err)
}

func (x *roundTrip) newRetryError(reason, err error) error {
	return &RetryError{Route: x.route(), Attempts: x.retry.attempts, Reason: reason, Err: err}
}

// acquireForRetry does the same as acquireLease, for an attempt after a failure. It returns an error if the attempt
// cannot begin within retryTime.
func (x *roundTrip) acquireForRetry(ctx context.Context) (buckets.Lease, error) {
	longest := x.maxRateLimit()
	if o := buckets.OptionsOf(ctx); o.HasMaxWait {
		longest = o.MaxWait
	}
	left := retryTime - time.Since(x.retry.first)
	if left < longest {
		ctx = buckets.ContextWithMaxWait(ctx, left)
	}
	lease, err := x.acquireLease(ctx)
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.As(err, &tooLong) && !tooLong.Deadline && left < longest:
		return lease, x.newRetryError(ErrMaxRetryDuration, err)
	case err == nil && time.Since(x.retry.first) > retryTime: // the wait could not be predicted
		lease.Return()
		return lease, x.newRetryError(ErrMaxRetryDuration, errTooLate)
	}
	return lease, err
}

// safeToRepeat reports whether the request may be sent again, because a repetition does no harm or because an option
// allows it.
func (x *roundTrip) safeToRepeat(err error) bool {
	switch {
	case x.attempts.Retries == NoRetries:
		return false
	case x.attempts.Mode == UnsafeRetries || message.IsIdempotent(methodOf(x.request)) || neverSent(err):
		return true
	}
	nonce := x.enforcesNonce()
	x.retry.doubtful = x.retry.doubtful || nonce
	return nonce
}

// repeatedBelow reports whether the base transport may have sent the request more than once. If so, the error of the
// base transport describes only the last time. When an idle connection turns out to be dead, net/http repeats requests
// with the methods or headers below.
func (x *roundTrip) repeatedBelow() bool {
	switch methodOf(x.request) {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return x.request.Header.Get("Idempotency-Key") != "" || x.request.Header.Get("X-Idempotency-Key") != ""
}

// enforcesNonce reports whether the request has a nonce and enforce_nonce, so that Discord creates the message only
// once (Discord's documentation). Nonces of webhooks and interactions have no such effect.
func (x *roundTrip) enforcesNonce() bool {
	if x.ask.Route.Route() != routes.CreateMessage {
		return false
	}
	fields, ok := decode[map[string]json.RawMessage](&x.body) // a map, because a struct would accept names in any case
	nonce := string(fields["nonce"])
	return ok && string(fields["enforce_nonce"]) == "true" && nonce != "" && nonce != "null" && nonce != `""`
}

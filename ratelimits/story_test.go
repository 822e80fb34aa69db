package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	ms     = time.Millisecond
	second = time.Second
	// rounding is the largest difference between a value in Discord's headers and the exact value.
	rounding = ms
)

// ok returns a successful response that carries limits.
func ok(limit, remaining int, after time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after}
}

// refused returns a 429 of the bucket itself.
func refused(limit int, retry time.Duration) ratelimits.Response {
	return ratelimits.Response{
		Status: 429, Class: ratelimits.ClassUser, Limited: true, Limit: limit, ResetAfter: retry,
		RetryAfter: retry, HasRetryAfter: true,
	}
}

// shared returns a 429 of a shared limit. It says nothing about the bucket.
func shared(retry time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: ratelimits.ClassShared, RetryAfter: retry, HasRetryAfter: true}
}

// Responses that carry no limits.
var (
	bare   = ratelimits.Response{Status: 200}
	broken = ratelimits.Response{Status: 502}
)

// withoutLimits lists the ways in which a request can end without a response that carries limits.
var withoutLimits = map[string]func(b *bucket, now time.Duration, p ratelimits.Permit){
	"lost":       func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Lost(now, p) },
	"given back": func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Return(now, p) },
	"broken":     func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, broken) },
	"no limits":  func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, bare) },
}

// bucket is a Window with additional methods, which fail the test if a step does not have the expected result.
type bucket struct {
	ratelimits.Window
	t testing.TB
}

// newBucket returns an unknown bucket that counts as punctual, so that no request has to be sent alone to try an
// opening.
func newBucket(t testing.TB) *bucket {
	b := &bucket{t: t}
	b.ExpectLate(0, 0)
	return b
}

// known returns a bucket whose first request was sent and answered at 0. Its kind is not proven. Its first window has
// certainly closed at period + rounding.
func known(t testing.TB, limit int, period time.Duration) *bucket {
	t.Helper()
	b := newBucket(t)
	b.exchange(0, ok(limit, limit-1, period))
	return b
}

// fixed returns a bucket that is proven to have fixed windows. The proof is two requests, which were sent at 0 and
// after a tenth of the period, and were answered at once.
func fixed(t testing.TB, limit int, period time.Duration) *bucket {
	t.Helper()
	b := known(t, limit, period)
	b.exchange(period/10, ok(limit, limit-2, period-period/10))
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	return b
}

// send sends one request. The test fails if no request may be sent now.
func (b *bucket) send(now time.Duration) ratelimits.Permit {
	b.t.Helper()
	permit, granted := b.Take(now)
	require.True(b.t, granted, "nothing may leave at %v", now)
	return permit
}

// burst sends requests until no more may be sent now. The test fails if their number is not want.
func (b *bucket) burst(now time.Duration, want int) []ratelimits.Permit {
	b.t.Helper()
	var permits []ratelimits.Permit
	for len(permits) <= want {
		permit, granted := b.Take(now)
		if !granted {
			break
		}
		permits = append(permits, permit)
	}
	require.Equal(b.t, want, len(permits), "requests that may leave at %v", now)
	return permits
}

// many sends n requests. The test fails if n requests may not be sent now; more may be possible.
func (b *bucket) many(now time.Duration, n int) []ratelimits.Permit {
	b.t.Helper()
	var permits []ratelimits.Permit
	for range n {
		permits = append(permits, b.send(now))
	}
	return permits
}

// exchange sends a request, which is answered at the same time.
func (b *bucket) exchange(now time.Duration, r ratelimits.Response) {
	b.t.Helper()
	b.Report(now, b.send(now), r)
}

// exchangeInFlight answers a request that was sent at 0, before the hold. It was sent with a permit of another window.
func (b *bucket) exchangeInFlight(now time.Duration, r ratelimits.Response) {
	b.Report(now, b.Adopt(now, 0), r)
}

// closedUntil asserts that no request may be sent from now until the given time, and that a request may be sent at that
// time. It advances the window to that time.
func (b *bucket) closedUntil(now, until time.Duration) {
	b.t.Helper()
	_, granted := b.Take(now)
	require.False(b.t, granted, "something may leave at %v", now)
	at, certain := b.Next(now)
	require.True(b.t, certain, "the window waits for an outcome instead of a time")
	require.Equal(b.t, until, at, "the time of the next request")
	_, granted = b.Take(until - 1)
	require.False(b.t, granted, "something may leave just before %v", until)
	at, certain = b.Next(until)
	require.True(b.t, certain)
	require.Equal(b.t, until, at, "Next must name the present time when a request may be sent")
}

// waitsForAnOutcome asserts that no request may be sent before the outcome of a request in flight is known.
func (b *bucket) waitsForAnOutcome(now time.Duration) {
	b.t.Helper()
	_, granted := b.Take(now)
	require.False(b.t, granted, "something may leave at %v", now)
	_, certain := b.Next(now)
	require.False(b.t, certain, "the window waits for a time instead of an outcome")
}

// left asserts how many requests will certainly be accepted now.
func (b *bucket) left(now time.Duration, want int) {
	b.t.Helper()
	assert.Equal(b.t, want, b.Remaining(now), "requests left at %v", now)
}

// refusedFor returns a 429 of the bucket itself whose wait is shorter than its reset-after.
func refusedFor(limit int, retry, reset time.Duration) ratelimits.Response {
	r := refused(limit, retry)
	r.ResetAfter = reset
	return r
}

// opens returns the time at which the next request may be sent. It advances to the times that Next names, because the
// window may have to wait after a hold.
func (b *bucket) opens(now time.Duration) time.Duration {
	b.t.Helper()
	for range 10 {
		at, certain := b.Next(now)
		require.True(b.t, certain, "the window waits for an outcome instead of a time")
		if at <= now {
			return at
		}
		now = at
	}
	require.Fail(b.t, "the window names later and later times")
	return 0
}

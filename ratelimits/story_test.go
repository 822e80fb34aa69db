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
	// rounding is by how much a decimal of Discord's may miss what the server meant.
	rounding = ms
)

// ok is a success that carries limits.
func ok(limit, remaining int, after time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after}
}

// refused is a 429 of the bucket itself.
func refused(limit int, retry time.Duration) ratelimits.Response {
	return ratelimits.Response{
		Status: 429, Class: ratelimits.ClassUser, Limited: true, Limit: limit, ResetAfter: retry,
		RetryAfter: retry, HasRetryAfter: true,
	}
}

// shared is a 429 of the resource, without any word on the bucket.
func shared(retry time.Duration) ratelimits.Response {
	return ratelimits.Response{Status: 429, Class: ratelimits.ClassShared, RetryAfter: retry, HasRetryAfter: true}
}

// Answers without a word about limits.
var (
	bare   = ratelimits.Response{Status: 200}
	broken = ratelimits.Response{Status: 502}
)

// withoutLimits are the ends of a request that tell nothing about limits.
var withoutLimits = map[string]func(b *bucket, now time.Duration, p ratelimits.Permit){
	"lost":       func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Lost(now, p) },
	"given back": func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Return(now, p) },
	"broken":     func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, broken) },
	"no limits":  func(b *bucket, now time.Duration, p ratelimits.Permit) { b.Report(now, p, bare) },
}

// bucket is a Window in a story: it fails the test where a step does not go as told.
type bucket struct {
	ratelimits.Window
	t testing.TB
}

// newBucket is a bucket of a hash whose buckets have opened when they said: no request goes first at an opening.
func newBucket(t testing.TB) *bucket {
	b := &bucket{t: t}
	b.ExpectLate(0, 0)
	return b
}

// known is a bucket whose first request, at 0, was answered at once. Its kind is not proven, and its window is
// certainly closed one rounding after the period.
func known(t testing.TB, limit int, period time.Duration) *bucket {
	t.Helper()
	b := newBucket(t)
	b.exchange(0, ok(limit, limit-1, period))
	return b
}

// fixed is a bucket of fixed windows, proven by two requests at 0 and a tenth of the period later, both answered at
// once.
func fixed(t testing.TB, limit int, period time.Duration) *bucket {
	t.Helper()
	b := known(t, limit, period)
	b.exchange(period/10, ok(limit, limit-2, period-period/10))
	require.Equal(t, ratelimits.KindFixed, b.Kind())
	return b
}

// send sends one request, which has to be possible now.
func (b *bucket) send(now time.Duration) ratelimits.Permit {
	b.t.Helper()
	permit, granted := b.Take(now)
	require.True(b.t, granted, "nothing may leave at %v", now)
	return permit
}

// burst sends as many requests as may leave now, which have to be so many.
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

// many sends so many requests, more of which might follow.
func (b *bucket) many(now time.Duration, n int) []ratelimits.Permit {
	b.t.Helper()
	var permits []ratelimits.Permit
	for range n {
		permits = append(permits, b.send(now))
	}
	return permits
}

// exchange sends a request and has it answered at that very moment.
func (b *bucket) exchange(now time.Duration, r ratelimits.Response) {
	b.t.Helper()
	b.Report(now, b.send(now), r)
}

// exchangeInFlight answers a request that was sent, by another way, before the hold.
func (b *bucket) exchangeInFlight(now time.Duration, r ratelimits.Response) {
	b.Report(now, b.Adopt(now, 0), r)
}

// closedUntil says that nothing may leave now, nor just before the given time, but then. The story goes on at that
// time.
func (b *bucket) closedUntil(now, until time.Duration) {
	b.t.Helper()
	_, granted := b.Take(now)
	require.False(b.t, granted, "something may leave at %v", now)
	at, certain := b.Next(now)
	require.True(b.t, certain, "waits for an outcome and not for a time")
	require.Equal(b.t, until, at, "the time of the next request")
	_, granted = b.Take(until - 1)
	require.False(b.t, granted, "something may leave just before %v", until)
	at, certain = b.Next(until)
	require.True(b.t, certain)
	require.Equal(b.t, until, at, "can it really leave at that time?")
}

// waitsForAnOutcome says that nothing may leave before a request in flight has its outcome.
func (b *bucket) waitsForAnOutcome(now time.Duration) {
	b.t.Helper()
	_, granted := b.Take(now)
	require.False(b.t, granted, "something may leave at %v", now)
	_, certain := b.Next(now)
	require.False(b.t, certain, "waits for a time and not for an outcome")
}

// left says how many requests are left now.
func (b *bucket) left(now time.Duration, want int) {
	b.t.Helper()
	assert.Equal(b.t, want, b.Remaining(now), "requests left at %v", now)
}

// refusedFor is a 429 of the bucket itself that asks to come back before the bucket is empty.
func refusedFor(limit int, retry, reset time.Duration) ratelimits.Response {
	r := refused(limit, retry)
	r.ResetAfter = reset
	return r
}

// opens returns when the next request may leave, after a hold and after the window behind it. It has to be before ever.
func (b *bucket) opens(now time.Duration) time.Duration {
	b.t.Helper()
	for range 10 {
		at, certain := b.Next(now)
		require.True(b.t, certain, "waits for an outcome and not for a time")
		if at <= now {
			return at
		}
		now = at
	}
	require.Fail(b.t, "the window names later and later times")
	return 0
}

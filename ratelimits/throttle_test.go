package ratelimits

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestThrottleIsOnlyEverExtended(t *testing.T) {
	t.Parallel()
	var hold Throttle
	assert.Zero(t, hold.Wait(0))
	assert.False(t, hold.Extend(100, 0))
	assert.False(t, hold.Extend(100, -5))

	assert.True(t, hold.Extend(100, 50))
	assert.Equal(t, 50*time.Nanosecond, hold.Wait(100))
	assert.Equal(t, 30*time.Nanosecond, hold.Wait(120))

	assert.False(t, hold.Extend(120, 10), "a shorter hold changes nothing")
	assert.Equal(t, time.Duration(150), hold.Until())
	assert.True(t, hold.Extend(120, 40))
	assert.Equal(t, time.Duration(160), hold.Until())
	assert.Zero(t, hold.Wait(160))
	assert.Zero(t, hold.Wait(500))

	assert.True(t, hold.Extend(time.Hour, math.MaxInt64))
	assert.Greater(t, hold.Wait(time.Hour), 50*365*24*time.Hour)
	assert.False(t, hold.Extend(time.Hour, math.MaxInt64))
}

func TestTooLongErrorSaysWhatWouldHaveToWaitForHowLong(t *testing.T) {
	t.Parallel()
	err := error(&TooLongError{
		Route: "GET /gateway", Wait: 12 * time.Second, Max: 10 * time.Second, Limit: 5, Period: time.Second,
	})
	assert.EqualError(t, err, "rate limit too long: GET /gateway would wait 12s (5 requests per 1s), "+
		"longer than the 10s that it may wait")
	assert.NotErrorIs(t, err, context.DeadlineExceeded)

	err = &TooLongError{Route: "GET /gateway", Wait: 3 * time.Second, Max: time.Second, Deadline: true, Global: true}
	assert.EqualError(t, err, "rate limit too long: GET /gateway would wait 3s for the global limit, "+
		"past the context's deadline in 1s")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	var tooLong *TooLongError
	assert.True(t, errors.As(err, &tooLong))

	cause := errors.New("the server does not answer")
	err = &TooLongError{Max: time.Second, Deadline: true, Cause: cause}
	assert.ErrorIs(t, err, cause)
	assert.ErrorIs(t, err, context.DeadlineExceeded, "the error has both reasons")
	assert.ErrorContains(t, err, "the server does not answer")
}

func TestOtherRefusalsSayWhatToExpect(t *testing.T) {
	t.Parallel()
	assert.EqualError(t, &QueueFullError{Route: "GET /gateway", Waiting: 7, Max: 7},
		"queue full: GET /gateway refused, 7 of at most 7 requests wait")
	assert.ErrorContains(t, &EdgeError{Route: "GET /gateway", Hold: time.Minute}, "held for 1m0s")
}

func TestTooLongErrorSaysWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  TooLongError
		want string
	}{
		{TooLongError{Limit: 5, Period: time.Second}, "(5 requests per 1s)"},
		{TooLongError{Class: ClassUser, Limit: 5, Period: time.Second},
			"for its bucket, which is used up (5 requests per 1s)"},
		{TooLongError{Class: ClassShared}, "for a limit of the resource, which is used up"},
		{TooLongError{Class: ClassSubLimit}, "for a hidden limit, which is used up"},
		{TooLongError{Declared: "webhook"}, "for the declared limit \"webhook\""},
		{TooLongError{Global: true, Limit: 5, Period: time.Second}, "for the global limit"},
		{TooLongError{Global: true, Class: ClassGlobal}, "for the global limit, which is held"},
		{TooLongError{Global: true, Class: ClassEdge}, "because the edge (Cloudflare) has refused this address"},
	} {
		c.err.Route, c.err.Wait, c.err.Max = "GET /gateway", 3*time.Second, 2*time.Second
		assert.EqualError(t, &c.err,
			"rate limit too long: GET /gateway would wait 3s "+c.want+", longer than the 2s that it may wait")
	}
}

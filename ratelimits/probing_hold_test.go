package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
)

// A success of the request that went first says nothing of a refusal that has come since it was sent: one request goes
// first after that one, too.
func TestSuccessDuringAHoldDoesNotEndTheProbingAfterIt(t *testing.T) {
	var w ratelimits.Window
	at := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	answer := ratelimits.Response{
		Status: 200, Limited: true, Bucket: "b", Limit: 5, Remaining: 4, ResetAfter: time.Second,
	}
	take := func(seconds int) ratelimits.Permit {
		p, ok := w.Take(at(seconds))
		require.True(t, ok, "at %d s", seconds)
		return p
	}
	w.Report(at(1), take(1), answer)
	w.Hold(at(2), at(2))
	first := take(10)
	w.Hold(at(11), at(10))
	w.Report(at(12), first, answer)
	take(30)
	_, ok := w.Take(at(30))
	require.False(t, ok, "one goes first")
}

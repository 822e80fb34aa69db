package ratelimits_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// outdated is the response of a compatible server to the first request of a window. It describes the previous window.
var outdated = ok(10, 0, 0)

func TestFirstResponseThatShowsTheWindowBeforeSaysNothing(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	b.Report(100*ms, b.send(0), outdated)
	second := b.send(100 * ms)
	b.waitsForAnOutcome(150 * ms)
	b.Report(200*ms, second, ok(10, 8, 4900*ms))
	b.burst(200*ms, 8)
}

func TestResponseThatShowsTheWindowBeforeIsOfTheWindowOfTheNextOne(t *testing.T) {
	t.Parallel()
	b := fixed(t, 10, 5*second)
	for i, p := range b.burst(6*second, 10) {
		if i == 0 {
			b.Report(6*second, p, outdated)
		} else {
			b.Report(6*second+100*ms, p, ok(10, 9-i, 4900*ms))
		}
	}
	b.closedUntil(6*second+100*ms, 11*second+rounding)
	b.burst(11*second+rounding, 10) // no request has to be sent before the others
}

// The response of a window that closes late may name the announced end of that window, which has passed, and count two
// requests.
func TestResponseThatCountsTwoInAWindowThatIsOverSaysNothing(t *testing.T) {
	t.Parallel()
	b := fixed(t, 10, 5*second)
	permits := b.many(6*second, 2)
	b.Report(6*second, permits[0], ok(10, 8, 0))
	b.Report(6*second, permits[1], ok(10, 8, 5*second))
	assert.Equal(t, 5*second, b.Period())
	b.burst(6*second, 8)
	b.closedUntil(6*second, 11*second+rounding)
}

// A 429 may ask for a wait that is longer than the window. That wait must not be taken for the period.
func TestExtendedBlockIsNotThePeriod(t *testing.T) {
	t.Parallel()
	b := fixed(t, 10, 5*second)
	b.Report(6*second, b.send(6*second), refused(10, 40*second))
	assert.Equal(t, 5*second, b.Period())
}

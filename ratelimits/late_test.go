package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = time.Second

func takeAt(t *testing.T, w *Window, now time.Duration) Permit {
	t.Helper()
	p, ok := w.Take(now)
	require.True(t, ok)
	return p
}

func says(limit, remaining int, after time.Duration) Response {
	return Response{Status: 200, Limited: true, Limit: limit, Remaining: remaining, ResetAfter: after}
}

func TestLateReportDoesNotTurnTheResetBack(t *testing.T) {
	t.Parallel()
	var w Window
	w.Unlimit()
	first, then := takeAt(t, &w, 1*second), takeAt(t, &w, 2*second)
	w.Report(5*second, then, Response{Status: 200})
	w.Report(4*second, first, Response{Status: 200})
	assert.Equal(t, 5*second, w.Reset())
}

// Three have not passed a hidden limit within its span if one of them did more than that before another one.
func TestLateReportDoesNotWidenAHiddenLimit(t *testing.T) {
	t.Parallel()
	var w Window
	w.Unlimit()
	w.writeRare().hidden = hiddenLimit{room: 2, span: second, until: time.Hour}
	w.Report(9980*ms, takeAt(t, &w, 9970*ms), Response{Status: 200})
	late, p := w.Adopt(9990*ms, 9700*ms), w.Adopt(9990*ms, 9990*ms)
	w.Report(10_900*ms, p, Response{Status: 200})
	w.Report(9800*ms, late, Response{Status: 200})
	assert.EqualValues(t, 2, w.rare.hidden.room)
}

// Requests that were refused together are one refusal, in whatever order that is reported.
func TestLateRefusalIsNotANewOne(t *testing.T) {
	t.Parallel()
	var w Window
	w.Unlimit()
	refused := Response{Status: 429, Class: ClassShared, HasRetryAfter: true, RetryAfter: second}
	for i := range time.Duration(10) {
		w.Report((i+1)*ms, takeAt(t, &w, i*ms), Response{Status: 200})
	}
	first, then, late := takeAt(t, &w, 8*second), takeAt(t, &w, 9500*ms), takeAt(t, &w, 9600*ms)
	passed := takeAt(t, &w, 9700*ms)
	w.Report(10*second, takeAt(t, &w, 9700*ms), refused)
	room := w.rare.hidden.room
	w.Report(9*second, first, refused)
	w.Report(10_100*ms, passed, Response{Status: 200})
	w.Report(10_200*ms, then, refused)
	w.Report(10_200*ms, late, refused)
	assert.Equal(t, room, w.rare.hidden.room)
	assert.Equal(t, 10_200*ms, w.rare.hidden.met)
}

// A limit that was lowered is not raised by the answer to a request of before.
func TestLateReportDoesNotForgetWhenTheLimitWasLowered(t *testing.T) {
	t.Parallel()
	var w Window
	w.Report(10*ms, takeAt(t, &w, 0), says(10, 9, second))
	older, between, latest := takeAt(t, &w, 100*ms), takeAt(t, &w, 250*ms), takeAt(t, &w, 290*ms)
	w.Report(400*ms, latest, says(5, 1, second))
	w.Report(200*ms, older, says(4, 1, second))
	w.Report(300*ms, between, says(10, 1, second))
	assert.Zero(t, w.rare.raised)
}

func TestRequestThatIsNotInFlightIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	var w Window
	w.Hold(0, second)
	probe := takeAt(t, &w, second)
	require.True(t, probe.probe)
	w.Return(second, Permit{}) // whatever it is
	takeAt(t, &w, second)
}

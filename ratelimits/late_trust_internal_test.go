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

// A state that somebody else has written lets nothing wait for more than a day: neither may its lateness.
func TestResumedLatenessHoldsNothingForLongerThanADay(t *testing.T) {
	t.Parallel()
	var w Window
	now := 100 * 24 * time.Hour
	w.Report(now, takeAt(t, &w, now), says(1, 0, second))
	w.writeRare().late = lateness{by: 47 * time.Hour, shown: measurement{least: 47 * time.Hour}, tryAt: now + 47*time.Hour}
	w, _, err := DecodeWindow(w.Append(nil))
	require.NoError(t, err)
	w.Resume(now, true)
	at, ok := w.Next(now)
	require.True(t, ok)
	assert.LessOrEqual(t, at-now, LongestTrust)
}

// Nothing is opened before its announced reset by a state with a negative lateness.
func TestDecodedLatenessIsNotNegative(t *testing.T) {
	t.Parallel()
	var w Window
	now := 100 * 24 * time.Hour
	w.Report(now, takeAt(t, &w, now), says(1, 0, time.Minute))
	w.writeRare().late = lateness{by: -time.Hour, tryAt: now + time.Hour}
	w, _, err := DecodeWindow(w.Append(nil))
	if err != nil {
		return
	}
	w.Resume(now, true)
	at, ok := w.Next(now)
	require.True(t, ok)
	assert.GreaterOrEqual(t, at-now, time.Minute)
}

// A request that was in flight when lateness was shown, and is refused a long time after, does not measure the same.
func TestSlowUploadOfBeforeDoesNotRaiseLateness(t *testing.T) {
	t.Parallel()
	var w Window
	w.ExpectLate(second, 0)
	now := second
	w.Report(now+100*ms, takeAt(t, &w, now), says(2, 1, 60*second))
	w.Report(now+200*ms, takeAt(t, &w, now+100*ms), says(2, 0, 60*second-100*ms))
	now, _ = w.Next(now + 200*ms)
	quick, slow := takeAt(t, &w, now), takeAt(t, &w, now)
	refused := func(wait time.Duration) Response {
		r := says(2, 0, wait)
		r.Status, r.Class, r.HasRetryAfter, r.RetryAfter = 429, ClassUser, true, wait
		return r
	}
	w.Report(now+50*ms, quick, refused(200*ms))
	by, _ := w.Late()
	w.Report(now+45*second, slow, refused(59*second)) // another client has filled it meanwhile
	after, _ := w.Late()
	assert.Less(t, after, by+second, "was %v", by)
}

// One that goes first holds up the others only until the opening that it tries is certainly open, whatever opens after
// it.
func TestLaterOpeningsDoNotProlongTheWaitForTheFirst(t *testing.T) {
	t.Parallel()
	var w Window
	const n = 50
	period := 20 * second
	w.limit, w.longest, w.origin = n, period, learnt // a log, as evidence goes
	w.evidence.refuted = everyKind &^ log
	now := second
	for range n { // one every 400 ms
		p := takeAt(t, &w, now)
		w.ledger.add(&charge{received: now, reset: interval{now + period, now + period}, n: 1, sure: 1, counted: 1})
		w.inflight--
		_ = p
		now += 400 * ms
	}
	now = max(now, second+period)
	slow := takeAt(t, &w, now)
	require.True(t, slow.probe, "it goes first")
	opened := now
	for {
		at, ok := w.Next(now)
		require.True(t, ok)
		if at <= now {
			break
		}
		now = at
	}
	// The second place came back 400 ms after the first: it is open for certain half a second after that, at the latest.
	assert.LessOrEqual(t, now-opened, 400*ms+plausible+10*ms)
}

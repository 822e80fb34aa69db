package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

// A server's fixed window, whose answers arrive in any order.
//
// All requests of one burst leave together; the server processes them in one order and answers in another, and while
// the window is open nothing that the answers say lets more than the limit leave, or makes Remaining rise.
func TestAnswersInAnyOrderNeverGrantTooMuch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 12).Draw(t, "limit")
		const period = 10 * second
		var w ratelimits.Window
		first, granted := w.Take(0)
		require.True(t, granted)
		opened := time.Duration(rapid.IntRange(0, 300).Draw(t, "first processed")) * ms
		now := opened + time.Duration(rapid.IntRange(0, 300).Draw(t, "first answered"))*ms
		w.Report(now, first, ok(limit, limit-1, period))

		type answer struct {
			permit ratelimits.Permit
			r      ratelimits.Response
		}
		var flying []answer
		sent, processed, left := 1, now, w.Remaining(now)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "pause")) * ms
			if rapid.Bool().Draw(t, "send") {
				if permit, granted := w.Take(now); granted {
					sent++
					processed = max(processed, now)
					flying = append(flying, answer{permit, ok(limit, limit-sent, opened+period-processed)})
				}
			} else if len(flying) > 0 {
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "answer")
				w.Report(now, flying[i].permit, flying[i].r)
				flying = slices.Delete(flying, i, i+1)
			}
			require.LessOrEqual(t, sent, limit, "requests in one window")
			require.LessOrEqual(t, w.Remaining(now), left, "Remaining must not rise")
			require.LessOrEqual(t, sent+w.Remaining(now), limit, "Remaining is more than there is")
			left = w.Remaining(now)
		}
		require.Equal(t, limit-sent, left, "none of them is lost, either")
	})
}

// The same, but bursts through the end of windows, with every request answered or lost sooner or later.
func TestWindowsFollowEachOtherWhateverTheOrderOfAnswers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		for name, rule := range rulesOfEveryKind(5, second) {
			s := serve(t, rule, between(seed, 5*ms, 400*ms))
			s.Send(40)
			s.Finish()
			require.Zero(t, s.Avoidable(), "%s, seed %d", name, seed)
			require.Empty(t, s.Refusals)
			require.Less(t, s.Now, 40*second, "%s, seed %d", name, seed)
		}
	}
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// reversal sends requests to a bucket that changes its kind at the time at, which is about ten seconds after the start.
func reversal(t *testing.T, limit int, from, to string, at time.Duration, travel travel) *served {
	t.Helper()
	rules := rulesOfEveryKind(limit, second)
	rule := rules[from]
	rule.Changes = []discordsim.Change{{At: at, Quota: rules[to].Quota}}
	s := serve(t, rule, travel)
	s.SendUntil(30 * second)
	s.Finish()
	return s
}

// heals asserts that, some seconds after the change, the bucket is used almost as fast as the latency allows.
func (s *served) heals(limit int, slowestTrip time.Duration) {
	late := 0
	for _, at := range s.Accepted {
		if at >= 15*second && at < 27*second {
			late++
		}
	}
	windows := int((12 * second) / (second + slowestTrip + 5*ms))
	require.GreaterOrEqual(s.T, late, windows*limit*9/10, "requests in twelve seconds")
}

// After a change of kind the client must cause few 429s. Because Remaining may be one too high, the window needs one
// more answer to notice the change, so two requests may be refused. If the latency has jitter, more requests in flight
// may be refused. When the first 429 is known, no request that will be refused may be sent.
func TestWrongKindCostsOneRoundOfRefusalsAtMostAndHeals(t *testing.T) {
	t.Parallel()
	for from := range wantKind {
		for to := range wantKind {
			if from == to {
				continue
			}
			t.Run(from+" becomes "+to, func(t *testing.T) {
				t.Parallel()
				for _, limit := range []int{2, 5, 10} {
					for i := range time.Duration(5) {
						at, roundTrip := 10*second+i*237*ms, i*60*ms
						s := reversal(t, limit, from, to, at, steady(roundTrip))
						require.LessOrEqual(t, len(s.Refusals), 2, "limit %d, at %v, round trip %v", limit, at, roundTrip)
						s.sentNoneAfterTheFirstRefusal(limit, at)
						s.heals(limit, roundTrip)

						s = reversal(t, limit, from, to, at, between(uint64(i), 10*ms, 120*ms))
						s.sentNoneAfterTheFirstRefusal(limit, at)
						s.heals(limit, 240*ms)
					}
				}
			})
		}
	}
}

func (s *served) sentNoneAfterTheFirstRefusal(limit int, at time.Duration) {
	for _, event := range s.World.Refusals() {
		require.LessOrEqual(s.T, event.SentAt.Sub(s.Start), s.Refusals[0], "limit %d, at %v: after the first 429", limit, at)
	}
}

func TestKindIsFoundOutAnewAfterItHasChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to string }{
		{"sliding log", "fixed"}, {"sliding log", "leaky"}, {"leaky", "fixed"}, {"leaky", "aligned"}, {"fixed", "leaky"},
	} {
		t.Run(c.from+" becomes "+c.to, func(t *testing.T) {
			t.Parallel()
			s := reversal(t, 5, c.from, c.to, 10*second, steady(20*ms))
			assert.Equal(t, wantKind[c.to].String(), s.Kind().String())
		})
	}
}

// Within one fixed window, requests that are counted later get a shorter reset-after. If a response counts more
// requests but names a longer reset-after for the same window, the bucket slides now, whatever the latency.
func TestFixedVerdictFallsWithAnAnswerThatAFixedWindowCannotGive(t *testing.T) {
	t.Parallel()
	b := fixed(t, 3, second)
	permits := b.burst(10*second, 3)                 // the server counts them at 10.01, 10.05 and 10.10 s
	b.Report(10110*ms, permits[0], ok(3, 2, second)) // the window closes at 11.01 s
	b.Report(10120*ms, permits[1], ok(3, 1, 960*ms)) // the same window
	b.Report(10130*ms, permits[2], ok(3, 0, second)) // now the bucket slides, and will be empty at 11.10 s
	assert.NotEqual(t, ratelimits.KindFixed, b.Kind())
	require.GreaterOrEqual(t, b.opens(10130*ms), 11100*ms, "a burst before that would be refused")
}

// When a response contradicts a proven kind, all requests must stay charged.
func TestContradictedKindForgetsNothing(t *testing.T) {
	t.Parallel()
	b := log(t)
	b.left(1050*ms, 1) // the first place is free
	p := b.send(1050 * ms)
	b.Report(1050*ms, p, ok(5, 0, 300*ms)) // no sliding log can give this answer
	assert.Equal(t, ratelimits.KindUnproven, b.Kind())
	b.left(1050*ms, 0)
	b.closedUntil(1050*ms, 1350*ms+rounding) // earlier resets have been raised to the one in this answer
}

func TestAfterARefusalASlidingBucketLetsOneGoAndThenReachesItsFullRate(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"sliding log": discordsim.Sliding(5, second), "leaky": discordsim.Leaky(5, second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, always(quota), steady(40*ms))
			s.SendUntil(5 * second)
			s.Until(7 * second)
			s.World.Consume(s.Start.Add(s.Now), message, 5)
			s.Send(5)
			s.Finish()
			require.NotEmpty(t, s.Refusals)

			s.Until(s.Now + s.HoldWait(s.Now))
			s.Send(1)
			require.False(t, s.SendNow(), "only one request may be sent first")
			require.True(t, s.Probing())
			refusals := len(s.Refusals)
			s.SendUntil(15 * second)
			before := len(s.Accepted)
			s.SendUntil(25 * second)
			assert.GreaterOrEqual(t, len(s.Accepted)-before, 47, "of 50 possible requests")
			assert.Len(t, s.Refusals, refusals, "no further 429")
			assert.Zero(t, s.Avoidable())
		})
	}
}

package ratelimits_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// reversal is a bucket that counts in one way for ten seconds and a little more, and then in another.
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

// heals says that long after the change the bucket is about as fast as it can be with that latency.
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

// As Remaining may lag by one, one answer more is needed to see the change than Remaining alone would need: two
// requests can be under way then. With jitter several of those that are under way together may meet it. No more leave
// once the first refusal is known.
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
		require.LessOrEqual(s.T, event.SentAt.Sub(s.Start), s.Refusals[0], "limit %d, at %v: one more was sent", limit, at)
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

// Within one fixed window, whoever is counted later is told a shorter reset-after. A bucket that counts more and names
// a longer one, for the same window, has certainly become a sliding one, however long the answers travelled.
func TestFixedVerdictFallsWithAnAnswerThatAFixedWindowCannotGive(t *testing.T) {
	t.Parallel()
	b := fixed(t, 3, second)
	permits := b.burst(10*second, 3)                 // the server counts them at 10.01, 10.05 and 10.10 s
	b.Report(10110*ms, permits[0], ok(3, 2, second)) // window until 11.01 s
	b.Report(10120*ms, permits[1], ok(3, 1, 960*ms)) // the same
	b.Report(10130*ms, permits[2], ok(3, 0, second)) // sliding by now: full again at 11.10 s
	assert.NotEqual(t, ratelimits.KindFixed, b.Kind())
	require.GreaterOrEqual(t, b.opens(10130*ms), 11100*ms, "the whole batch would be refused")
}

// A proven window that proves to be of another kind keeps all that it has charged.
func TestContradictedKindForgetsNothing(t *testing.T) {
	t.Parallel()
	b := log(t)
	b.left(1050*ms, 1) // the first one is back
	p := b.send(1050 * ms)
	b.Report(1050*ms, p, ok(5, 0, 300*ms)) // no log answers so
	assert.Equal(t, ratelimits.KindUnproven, b.Kind())
	b.left(1050*ms, 0)
	b.closedUntil(1050*ms, 1350*ms+rounding) // the answer's reset, which the places of before are later than, or lifted to
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
			require.False(t, s.SendNow(), "one, and no more")
			require.True(t, s.Probing())
			refusals := len(s.Refusals)
			s.SendUntil(15 * second)
			before := len(s.Accepted)
			s.SendUntil(25 * second)
			assert.GreaterOrEqual(t, len(s.Accepted)-before, 47, "of 50")
			assert.Len(t, s.Refusals, refusals, "no second round")
			assert.Zero(t, s.Avoidable())
		})
	}
}

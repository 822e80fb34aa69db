package ratelimits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// wantKind has the kind that a Window should find for each rule of rulesOfEveryKind.
var wantKind = map[string]ratelimits.Kind{
	"fixed": ratelimits.KindFixed, "aligned": ratelimits.KindFixed,
	"sliding log": ratelimits.KindLog, "leaky": ratelimits.KindLeaky,
}

func TestKindIsNamedAsInLogs(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ratelimits.Kind]string{
		ratelimits.KindUnproven: "unproven", ratelimits.KindFixed: "fixed", ratelimits.KindLog: "sliding log",
		ratelimits.KindLeaky: "leaky", ratelimits.KindNext: "sliding log (next)", 9: "kind(9)",
	} {
		assert.Equal(t, want, kind.String())
	}
}

func TestKindIsFoundOutFromAFewAnswers(t *testing.T) {
	t.Parallel()
	latencies := map[string]func() travel{
		"20 ms":      func() travel { return steady(20 * ms) },
		"100 ms":     func() travel { return steady(100 * ms) },
		"jitter":     func() travel { return between(1, 10*ms, 120*ms) },
		"one-way":    func() travel { return func() trip { return trip{ms, 80 * ms} } },
		"no latency": func() travel { return steady(0) },
	}
	for name, rule := range rulesOfEveryKind(10, second) {
		for latency, travel := range latencies {
			t.Run(name+", "+latency, func(t *testing.T) {
				t.Parallel()
				s := serve(t, rule, travel())
				s.SendEvery(50*ms, 30)
				s.Finish()
				assert.Equal(t, wantKind[name].String(), s.Kind().String())
				assert.Empty(t, s.Refusals)
			})
		}
	}
}

// With any latency, a bucket must never be taken for one of another kind. If answers are slow or have jitter, a fixed
// window looks a little like a sliding bucket.
func TestKindIsNeverMistaken(t *testing.T) {
	t.Parallel()
	latencies := []func() travel{
		func() travel { return steady(300 * ms) },
		func() travel { return steady(900 * ms) },
		func() travel { return steady(2 * second) },
		func() travel { return func() trip { return trip{5 * ms, 400 * ms} } },
		func() travel { return func() trip { return trip{400 * ms, 5 * ms} } },
	}
	for seed := range uint64(3) {
		latencies = append(latencies, func() travel { return between(seed, 1*ms, 120*ms) })
		latencies = append(latencies, func() travel { return between(seed, 50*ms, 800*ms) })
	}
	rhythms := map[string]func(s *served){
		"as fast as allowed": func(s *served) { s.Send(60) },
		"one every 50 ms":    func(s *served) { s.SendEvery(50*ms, 60) },
		"one every 150 ms":   func(s *served) { s.SendEvery(150*ms, 60) },
		"one by one": func(s *served) {
			s.SendOneByOne(60)
		},
	}
	for _, limit := range []int{2, 5, 10} {
		for name, rule := range rulesOfEveryKind(limit, second) {
			for rhythm, play := range rhythms {
				t.Run(fmt.Sprintf("%s of %d, %s", name, limit, rhythm), func(t *testing.T) {
					t.Parallel()
					for i, latency := range latencies {
						s := serve(t, rule, latency())
						s.Answered = func(ratelimits.Response) {
							if kind := s.Kind(); kind != ratelimits.KindUnproven {
								require.Equal(t, wantKind[name].String(), kind.String(), "latency %d", i)
							}
						}
						play(s)
						s.Finish()
						require.Empty(t, s.Refusals, "latency %d", i)
					}
				})
			}
		}
	}
}

func TestKindOfABucketOfOneIsNotProvenWhereAllLookTheSame(t *testing.T) {
	t.Parallel()
	rules := rulesOfEveryKind(1, second)
	delete(rules, "aligned") // in its windows, later requests get a shorter reset-after, which shows the kind
	for name, rule := range rules {
		s := serve(t, rule, steady(20*ms))
		s.Send(20)
		s.Finish()
		assert.Equal(t, ratelimits.KindUnproven, s.Kind(), "%s: with a limit of one, all kinds look the same", name)
	}
}

// log returns a bucket that is a sliding log of five requests per second. Its kind is proven by five requests at 0,
// 100, … 400 ms, which were answered at once.
func log(t *testing.T) *bucket {
	t.Helper()
	b := newBucket(t)
	for i := range 5 {
		b.exchange(time.Duration(i)*100*ms, ok(5, 4-i, second))
	}
	require.Equal(t, ratelimits.KindLog, b.Kind())
	return b
}

// leaky returns a leaky bucket of five requests per second. Its kind is proven by three requests at 0, which were
// answered at once.
func leaky(t *testing.T) *bucket {
	t.Helper()
	b := newBucket(t)
	for i := range 3 {
		b.exchange(0, ok(5, 4-i, time.Duration(i+1)*200*ms))
	}
	require.Equal(t, ratelimits.KindLeaky, b.Kind())
	return b
}

func TestSlidingLogHandsOutItsPlacesOneByOne(t *testing.T) {
	t.Parallel()
	b := log(t)
	now := 400 * ms
	for i := range 5 {
		back := second + time.Duration(i)*100*ms + rounding
		b.closedUntil(now, back)
		b.left(back, 1)
		b.burst(back, 1) // only one place is free
		now = back
	}
	b.waitsForAnOutcome(now)
}

// Requests of other clients must not make a fixed window look like a sliding bucket.
func TestFixedWindowOfManyUsersIsNotTakenForASlidingBucket(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := serveConfig(t, discordsim.Config{
			Seed: seed, Rules: []discordsim.Rule{always(discordsim.Fixed(2, 2*second))},
			Foreign: []discordsim.ForeignUse{{Request: message, Every: 300 * ms}},
			Faults:  []discordsim.Fault{{Probability: 0.3, Status: 502, Uncounted: true}},
		}, between(seed, 50*ms, 55*ms))
		s.Send(60)
		s.Finish()
		assert.Zero(t, s.Avoidable(), "seed %d", seed)
	}
}

// Remaining is 0 although the client's own requests leave room. This shows that other clients use the bucket too. The
// requests of the other clients also expire later. The window must take both the use of the bucket and the later expiry
// into account.
func TestUseByOthersIsAdoptedInASlidingBucketToo(t *testing.T) {
	t.Parallel()
	for _, b := range []*bucket{log(t), leaky(t)} {
		b.exchange(10*second, ok(5, 0, second))
		b.left(10*second, 0)
		assert.InDelta(t, 11*second, b.Reset(), float64(10*ms))
		assert.GreaterOrEqual(t, b.opens(10*second), 10*second+190*ms)
	}
}

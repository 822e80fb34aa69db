package ratelimits_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ratelight/ratelight/ratelimits"
)

// pace sends requests through a global limit, each as soon as it lets one leave, and returns when the server processed
// them, in order.
func pace(g *ratelimits.Global, requests int, travel travel) []time.Duration {
	type answer struct {
		at   time.Duration
		slot ratelimits.Slot
	}
	var answers []answer // earliest first
	var processed []time.Duration
	now := time.Duration(0)
	for len(processed) < requests {
		for len(answers) > 0 && answers[0].at <= now {
			g.Report(answers[0].at, answers[0].slot)
			answers = answers[1:]
		}
		slot, wait := g.Take(now)
		if wait > 0 {
			now += wait
			if len(answers) > 0 {
				now = min(now, answers[0].at)
			}
			continue
		}
		way := travel()
		processed = append(processed, now+way.there)
		a := answer{now + way.there + way.back, slot}
		i, _ := slices.BinarySearchFunc(answers, a, func(x, y answer) int { return int(x.at - y.at) })
		answers = slices.Insert(answers, i, a)
	}
	slices.Sort(processed)
	return processed
}

// neverMoreThan says that no second has seen more requests than the limit, wherever the server lets its seconds begin.
func neverMoreThan(t require.TestingT, limit int, processed []time.Duration) {
	for i := limit; i < len(processed); i++ {
		first, last := processed[i-limit], processed[i]
		require.GreaterOrEqual(t, last-first, second, "%d requests between %v and %v", limit+1, first, last)
	}
}

// slowFirst is slow trips for the first requests, as while connections are opened, and then others.
func slowFirst(n int, slow, then travel) travel {
	return func() trip {
		if n--; n >= 0 {
			return slow()
		}
		return then()
	}
}

func TestNoServersSecondSeesMoreThanTheGlobalLimit(t *testing.T) {
	t.Parallel()
	oneWay := func(there, back time.Duration) travel { return func() trip { return trip{there, back} } }
	for name, travelOf := range map[string]func(limit int) travel{
		"no latency":            func(int) travel { return steady(0) },
		"20 ms":                 func(int) travel { return steady(20 * ms) },
		"100 ms":                func(int) travel { return steady(100 * ms) },
		"a second":              func(int) travel { return steady(second) },
		"slow way there":        func(int) travel { return oneWay(200*ms, 5*ms) },
		"slow way back":         func(int) travel { return oneWay(5*ms, 200*ms) },
		"answers after ages":    func(int) travel { return oneWay(10*ms, 5*second) },
		"jitter":                func(int) travel { return between(1, 20*ms, 60*ms) },
		"wild jitter":           func(int) travel { return between(2, 1*ms, 600*ms) },
		"slow while it warms":   func(limit int) travel { return slowFirst(limit, oneWay(700*ms, 100*ms), steady(50*ms)) },
		"answers late at first": func(limit int) travel { return slowFirst(limit, oneWay(10*ms, 900*ms), steady(20*ms)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, limit := range []int{1, 5, 50} {
				neverMoreThan(t, limit, pace(ratelimits.NewGlobal(limit), 12*limit, travelOf(limit)))
			}
		})
	}
}

// Before enough round trips are known, not even the worst luck with latencies makes the server see too many.
func TestGlobalPromisesNothingBeforeItKnowsTheLatency(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		there := rapid.IntRange(0, 1000) // ms; what is slower than that is what patience risks
		back := rapid.IntRange(0, 3000)
		processed := pace(ratelimits.NewGlobal(limit), 2*limit, func() trip {
			return trip{time.Duration(there.Draw(t, "there")) * ms, time.Duration(back.Draw(t, "back")) * ms}
		})
		neverMoreThan(t, limit, processed)
	})
}

func TestGlobalLimitIsNearlyUsedUpUnderSteadyLatency(t *testing.T) {
	t.Parallel()
	const limit = 50
	for roundTrip, atLeast := range map[time.Duration]float64{0: 1, 40 * ms: 0.99, 100 * ms: 0.97, 200 * ms: 0.95} {
		g := ratelimits.NewGlobal(limit)
		processed := pace(g, 30*limit, steady(roundTrip))
		warm := processed[5*limit:]
		rate := float64(len(warm)-limit) / (warm[len(warm)-limit] - warm[0]).Seconds()
		assert.GreaterOrEqual(t, rate/limit, atLeast, "of the limit, with round trips of %v", roundTrip)
		neverMoreThan(t, limit, processed)
	}
}

// One slow upload keeps one place of the limit, and not for longer than two seconds.
func TestGlobalSlowUploadDoesNotEatEverybodysRate(t *testing.T) {
	t.Parallel()
	const limit = 10
	g := ratelimits.NewGlobal(limit)
	takeGlobal(t, g, 0) // never answered
	processed := pace(g, 5*limit, steady(0))
	neverMoreThan(t, limit, processed)
	inTime := 0
	for _, at := range processed {
		if at < 4*second {
			inTime++
		}
	}
	assert.Equal(t, 4*limit-2, inTime, "in four seconds, two of which lacked one place")
}

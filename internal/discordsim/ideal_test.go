package discordsim

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// nothing has no latency and no global limit. far has a round trip of 100 ms and no global limit.
var (
	nothing = Conditions{Global: Unlimited()}
	far     = Conditions{RoundTrip: 100 * ms, Global: Unlimited()}
)

func TestIdealsByHand(t *testing.T) {
	t.Parallel()
	many := func(n int, work Work) (list []Work) {
		for range n {
			list = append(list, work)
		}
		return list
	}
	tests := []struct {
		name                string
		conditions          Conditions
		work                []Work
		omniscient, certain time.Duration
	}{
		{"nothing to do", far, nil, 0, 0},
		{"one request", far, []Work{{Quota: Fixed(5, second), Count: 1}}, 100 * ms, 100 * ms},
		{"unlimited", far, []Work{{Count: 1000}}, 100 * ms, 100 * ms},
		{"unlimited, cold: a probe first", far, []Work{{Count: 1000, Route: "r"}}, 100 * ms, 200 * ms},

		// Windows open at 0, 1 and 2 s for the omniscient client, and at 0, 1.1 and 2.2 s for the certain client.
		{"fixed, saturated", nothing, []Work{{Quota: Fixed(5, second), Count: 12}}, 2 * second, 2 * second},
		{"fixed, saturated, far", far, []Work{{Quota: Fixed(5, second), Count: 12}}, 2100 * ms, 2300 * ms},
		{"fixed, cold: the probe opens the window",
			far, []Work{{Quota: Fixed(5, second), Count: 12, Route: "r"}}, 2100 * ms, 2300 * ms},
		{"fixed, round trip longer than the window", Conditions{RoundTrip: 3 * second, Global: Unlimited()},
			[]Work{{Quota: Fixed(5, second), Count: 12}}, 5 * second, 11 * second},
		// The first window ends at 0.4 s. The omniscient client sends at 0, 0.35 and 1.35 s. After 0 s, the certain client
		// sends 0.1 s later.
		{"aligned", far, []Work{{Quota: Aligned(5, second, 400*ms), Count: 12}}, 1450 * ms, 1550 * ms},
		{"sliding, saturated", far, []Work{{Quota: Sliding(5, second), Count: 12}}, 2100 * ms, 2300 * ms},
		{"sliding, whatever its headers name", far, []Work{{Quota: SlidingNext(5, second), Count: 12}}, 2100 * ms, 2300 * ms},
		{"fixed, whatever refusals would do",
			far, []Work{{Quota: Extending(5, second, second), Count: 12}}, 2100 * ms, 2300 * ms},
		// Cold: 1 request at 0, 4 at 0.1 s, 1 at 1.1 s, 4 at 1.2 s, 1 at 2.2 s, 1 at 2.3 s.
		{"sliding, cold", far, []Work{{Quota: Sliding(5, second), Count: 12, Route: "r"}}, 2100 * ms, 2400 * ms},
		// The client sends 5 requests at 0, and then one every 0.2 s, the last one at 1.4 s. The certain client loses 0.1 s,
		// but only once.
		{"leaky, saturated", far, []Work{{Quota: Leaky(5, second), Count: 12}}, 1500 * ms, 1600 * ms},
		// A bucket of one place is empty whenever the client is certain that the place is free. So each of the first three
		// requests takes 0.2 + 0.1 s.
		{"leaky, one place", far, []Work{{Quota: Leaky(1, 200*ms), Count: 4}}, 700 * ms, 1000 * ms},

		// 200 requests at 50 per second: at 0, 1, 2 and 3 s. Each bucket alone would need 1 s.
		{"20 buckets under the global limit",
			Conditions{}, many(20, Work{Quota: Fixed(5, second), Count: 10}), 3 * second, 3 * second},
		{"20 buckets under the global limit, far",
			Conditions{RoundTrip: 100 * ms}, many(20, Work{Quota: Fixed(5, second), Count: 10}), 3050 * ms, 3100 * ms},
		// A window that began before the start ends at 0.25 s. So 50 requests are sent at 0, and 50 at 0.25 s. The certain
		// client cannot know when the window ends.
		{"global limit in another phase",
			Conditions{Global: Aligned(50, second, 250*ms)}, []Work{{Count: 100}}, 250 * ms, second},
		{"exempt from the global limit", Conditions{}, []Work{{Count: 100, Exempt: true}}, 0, 0},
		// The long Work needs three windows. Five of the first fifty requests belong to it. If its requests came last, they
		// would take until 4 s.
		{"a long bucket goes first",
			Conditions{}, append(many(20, Work{Quota: Fixed(5, second), Count: 5}), Work{Quota: Fixed(5, second), Count: 15}),
			2 * second, 2 * second},

		// Requests arrive at 0, 0.1, … 0.9 s. Five are sent when they arrive, and five at 1 s.
		{"fixed, arrivals above the rate",
			nothing, []Work{{Quota: Fixed(5, second), Count: 10, Every: 100 * ms}}, second, second},
		// The places of 0 … 0.4 s are free again at 1 … 1.4 s.
		{"sliding, arrivals above the rate",
			nothing, []Work{{Quota: Sliding(5, second), Count: 10, Every: 100 * ms}}, 1400 * ms, 1400 * ms},
		{"leaky, arrivals at the rate",
			far, []Work{{Quota: Leaky(5, second), Count: 100, Every: 200 * ms}}, 19_900 * ms, 19_900 * ms},
		// The second request waits until 1 s or 1.1 s. When the third one arrives, the bucket is empty.
		{"listed arrivals", far,
			[]Work{{Quota: Fixed(1, second), Offered: []time.Duration{0, 200 * ms, 5 * second}}}, 5100 * ms, 5100 * ms},
		{"two works of one route share a probe",
			far, many(2, Work{Quota: Fixed(3, second), Count: 3, Route: "r"}), 100 * ms, 200 * ms},
		{"two routes need two probes at the same time",
			far, []Work{{Count: 3, Route: "a"}, {Count: 3, Route: "b"}}, 100 * ms, 200 * ms},
	}
	for _, test := range tests {
		omniscient, err := Omniscient(test.conditions, test.work...)
		require.NoError(t, err)
		certain, err := Certain(test.conditions, test.work...)
		require.NoError(t, err)
		assert.Equal(t, test.omniscient, omniscient.Makespan, "%s, omniscient", test.name)
		assert.Equal(t, test.certain, certain.Makespan, "%s, certain", test.name)
	}
}

func TestWaitsOfOpenArrivals(t *testing.T) {
	t.Parallel()
	arrivals := Work{Quota: Fixed(5, second), Count: 10, Every: 100 * ms}
	fixed, err := Omniscient(nothing, arrivals)
	require.NoError(t, err)
	assert.Equal(t, 150*ms, fixed.MeanWait) // (0.5 + 0.4 + 0.3 + 0.2 + 0.1) s / 10
	arrivals.Quota = Sliding(5, second)
	sliding, err := Omniscient(nothing, arrivals)
	require.NoError(t, err)
	assert.Equal(t, 250*ms, sliding.MeanWait) // five times 0.5 s / 10
}

func TestNonsenseWorkIsRefused(t *testing.T) {
	t.Parallel()
	for _, work := range []Work{{Quota: Fixed(0, second)}, {Count: -1}, {Every: -1}} {
		_, err := Omniscient(Conditions{}, work)
		assert.ErrorIs(t, err, ErrConfig)
	}
	_, err := Certain(Conditions{RoundTrip: -1})
	assert.ErrorIs(t, err, ErrConfig)
	_, err = Certain(Conditions{Global: Fixed(0, 1)})
	assert.ErrorIs(t, err, ErrConfig)
}

func drawWork(t *rapid.T) Work {
	return Work{
		Quota: drawQuota(t),
		Count: rapid.IntRange(1, 30).Draw(t, "count"),
		Every: time.Duration(rapid.IntRange(0, 400).Draw(t, "every")) * ms,
		Route: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "route"),
	}
}

// The plan for one bucket is carried out with that bucket. No request may be refused, and no request could have been
// sent earlier.
func TestOmniscientPlanIsTheFastestForOneBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		work := drawWork(t)
		in := time.Duration(rapid.IntRange(0, 300).Draw(t, "in")) * ms
		plan, err := Omniscient(Conditions{RoundTrip: 2 * in, Global: Unlimited()}, work)
		require.NoError(t, err)
		var tries []try
		origin := time.Unix(0, 0) // aligned windows of the plan begin at this time
		for i, sent := range plan.Sent[0] {
			arrives := origin.Add(sent + in)
			earliest := time.Duration(i) * work.Every
			if i > 0 {
				earliest = max(earliest, plan.Sent[0][i-1])
			}
			if sent > earliest {
				require.False(t, replay(work.Quota, tries).Take(arrives.Add(-1), Own), "request %d could have been sent sooner", i)
			}
			require.True(t, replay(work.Quota, tries).Take(arrives, Own), "request %d", i)
			tries = append(tries, try{arrives, true})
		}
	})
}

// Plans for several buckets are carried out in a world with the same latency. No request may be refused.
func TestPlansAreNeverRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		conditions := Conditions{
			RoundTrip: 2 * time.Duration(rapid.IntRange(0, 500).Draw(t, "in")) * ms,
			Global:    Aligned(rapid.IntRange(1, 10).Draw(t, "global"), time.Second, 0),
		}
		var works []Work
		var rules []Rule
		for i := range rapid.IntRange(1, 4).Draw(t, "works") {
			work := drawWork(t)
			works = append(works, work)
			rules = append(rules, Rule{Path: "/" + string(rune('a'+i)), Quota: work.Quota})
		}
		omniscient, err := Omniscient(conditions, works...)
		require.NoError(t, err)
		certain, err := Certain(conditions, works...)
		require.NoError(t, err)
		if len(works) == 1 || !slices.ContainsFunc(works, func(work Work) bool { return work.Every > 0 }) {
			require.LessOrEqual(t, omniscient.Makespan, certain.Makespan)
		}
		for _, plan := range []Plan{omniscient, certain} {
			w, err := NewWorld(time.Unix(0, 0), Config{Rules: rules, Global: conditions.Global})
			require.NoError(t, err)
			type sending struct {
				at   time.Duration
				path string
			}
			var all []sending
			for i, times := range plan.Sent {
				require.Len(t, times, works[i].Count)
				for _, at := range times {
					all = append(all, sending{at, rules[i].Path})
				}
			}
			slices.SortStableFunc(all, func(a, b sending) int { return cmp.Compare(a.at, b.at) })
			for _, s := range all {
				response := w.Handle(time.Unix(0, 0).Add(s.at+conditions.RoundTrip/2), by("GET", s.path))
				require.Equal(t, ClassNone, response.Class, "%v %s", s.at, s.path)
			}
		}
	})
}

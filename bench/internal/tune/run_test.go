package tune

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

var (
	messages = []Share{{routes.CreateMessage, 1}}
	usual    = Discord{
		Quota: discordsim.Fixed(5, 5*second), GlobalLimit: 50, Latency: discordsim.Latency{RoundTrip: 100 * ms, Jitter: 50 * ms}, Seed: 1,
	}
)

// anHour is one of a small bot.
func anHour(seed uint64) Traffic {
	return Traffic{Requests: 700, Length: time.Hour, Channels: 10, Skew: 1, Burst: 20, BurstEvery: 10 * time.Minute, Mix: messages, Seed: seed}
}

func generate(t *testing.T, traffic Traffic) *Load {
	t.Helper()
	load, err := Generate(traffic)
	require.NoError(t, err)
	return load
}

// together is a load of requests at one moment, so many for each channel.
func together(t *testing.T, channels, each int) *Load {
	t.Helper()
	load := newLoad()
	for channel := range channels {
		route, err := compile(routes.CreateMessage, channel)
		require.NoError(t, err)
		target := load.queue(route)
		for range each {
			load.add(0, target)
		}
	}
	return load
}

func compare(t *testing.T, load *Load, discord Discord, acceptable float64, values ...time.Duration) Report {
	t.Helper()
	report, err := Run(t.Context(), Config{Load: load, Discord: discord, MaxRateLimits: values, Acceptable: acceptable, Done: func(int) {}})
	require.NoError(t, err)
	return report
}

func refused(report Report) (n []int) {
	for _, r := range report.Results {
		n = append(n, r.Refused)
	}
	return n
}

// Twenty requests at once, of which five can go every five seconds. The first one goes alone and brings the limit, and
// a cycle takes a little more than the window, because the client must be sure.
func TestRefusalsByHand(t *testing.T) {
	t.Parallel()
	values := []time.Duration{0, 4 * second, 6 * second, 11 * second, 16 * second, time.Minute}
	for _, quota := range []discordsim.Quota{discordsim.Fixed(5, 5*second), discordsim.Sliding(5, 5*second)} {
		discord := usual
		discord.Quota = quota
		report := compare(t, together(t, 1, 20), discord, 0.3, values...)
		assert.Equal(t, []int{19, 15, 10, 5, 0, 0}, refused(report), quota.Kind)
		assert.Equal(t, 3, report.Smallest, "5 of 20 are less than 0.3")
		assert.Equal(t, 4, report.Recommended, "which refuses none and costs 5 s more")
		assert.InDelta(t, 0.25, report.Results[3].Share(), 1e-9)

		all := report.Results[4]
		assert.Equal(t, 19, all.LongestQueue)
		assert.Equal(t, 19, all.MostWaiting)
		assert.Zero(t, all.Limited)
		assert.InDelta(t, 15*second, all.Max, float64(600*ms), "three windows")
		assert.InDelta(t, 5*second, all.Median, float64(300*ms), "the tenth of them is in the second window")
		assert.InDelta(t, all.Max+100*ms, all.Makespan, float64(60*ms))
		assert.Equal(t, []int{0}, refused(compare(t, together(t, 1, 5), discord, 0, 4*second)))
	}
}

func TestSmallestValueIsRecommendedInWhateverOrder(t *testing.T) {
	t.Parallel()
	report := compare(t, together(t, 1, 20), usual, 0, time.Minute, 6*second, 16*second, 6*second)
	assert.Equal(t, []int{10, 0, 0}, refused(report))
	assert.Equal(t, 1, report.Recommended)
	assert.Equal(t, 16*second, report.Results[1].MaxRateLimit)
	assert.Equal(t, time.Minute, report.Results[2].MaxRateLimit)
	assert.Equal(t, -1, compare(t, together(t, 1, 20), usual, 0.49, 6*second).Recommended, "half of them are refused")
	assert.Equal(t, 0, compare(t, together(t, 1, 20), usual, 0.5, 6*second).Recommended)
}

func TestChannelsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	report := compare(t, together(t, 5, 10), usual, 0, 4*second, 6*second)
	assert.Equal(t, []int{25, 0}, refused(report))
	assert.Equal(t, 9, compare(t, together(t, 1, 10), usual, 0, 6*second).Results[0].LongestQueue)
	assert.Equal(t, 49, report.Results[1].MostWaiting)
	assert.Equal(t, 10, report.Results[1].LongestQueue, "but for the first channel's first")
}

func TestSameSeedSameResult(t *testing.T) {
	t.Parallel()
	values := []time.Duration{second, 5 * second, 10 * second}
	traffic := anHour(7)
	first := compare(t, generate(t, traffic), usual, 0, values...)
	assert.Equal(t, first.Results, compare(t, generate(t, traffic), usual, 0, values...).Results)
	traffic.Seed = 8
	assert.NotEqual(t, first.Results, compare(t, generate(t, traffic), usual, 0, values...).Results)
	traffic.Seed = 7
	other := usual
	other.Seed = 2
	assert.NotEqual(t, first.Results, compare(t, generate(t, traffic), other, 0, values...).Results)
}

func TestLargerValueRefusesNoMore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		traffic := anHour(seed)
		traffic.Channels = 3
		for _, discord := range []Discord{
			usual,
			{Quota: discordsim.Sliding(5, 5*second), Latency: usual.Latency},
			{Quota: discordsim.Fixed(50, 5*second), GlobalLimit: 1, Latency: usual.Latency},
		} {
			report := compare(t, generate(t, traffic), discord, 0, 0, second, 5*second, 8*second, 12*second, time.Minute)
			n := refused(report)
			slices.Reverse(n)
			assert.True(t, slices.IsSorted(n), "seed %d, from the largest value to the smallest: %v", seed, n)
			assert.Positive(t, n[len(n)-1])
			for _, r := range report.Results {
				assert.Zero(t, r.Limited, "429s")
			}
		}
	}
}

// A value that refuses nothing is not reached by any wait, so larger ones need no replay. This one does it all the
// same.
func TestValuesAboveOneThatRefusesNothingGiveTheSame(t *testing.T) {
	t.Parallel()
	load := generate(t, anHour(3))
	values := []time.Duration{5 * second, 20 * second, 30 * second, 45 * second, time.Minute}
	report := compare(t, load, usual, 0, values...)
	assert.Zero(t, report.Results[2].Refused)
	for i, value := range values {
		result, err := simulate(t.Context(), load, usual, value, func(int) {})
		require.NoError(t, err)
		assert.Equal(t, result, report.Results[i], value)
	}
}

// What makes a day take seconds: nothing happens but the arrival, the two ways and, for those who wait, an alarm; and
// the garbage collector every 20 s.
func TestDayTakesABoundedNumberOfEvents(t *testing.T) {
	t.Parallel()
	traffic := anHour(1)
	traffic.Length = 24 * time.Hour
	load := generate(t, traffic)
	for _, r := range compare(t, load, usual, 0, 5*second, time.Minute).Results {
		assert.LessOrEqual(t, r.events, 4*load.Requests()+int(25*time.Hour/(20*second)))
	}
}

func TestEveryRequestIsCountedOnceForEachValue(t *testing.T) {
	t.Parallel()
	load := generate(t, anHour(1))
	var done atomic.Int64
	_, err := Run(t.Context(), Config{
		Load: load, Discord: usual, MaxRateLimits: []time.Duration{second, time.Minute, time.Hour, 2 * time.Hour},
		Done: func(requests int) { done.Add(int64(requests)) },
	})
	require.NoError(t, err)
	assert.EqualValues(t, 4*load.Requests(), done.Load())
}

func TestInterruptionEndsTheReplay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Config{
		Load: generate(t, anHour(1)), Discord: usual, MaxRateLimits: []time.Duration{time.Minute}, Done: func(int) { cancel() },
	})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	discord := Discord{Quota: discordsim.Fixed(0, second)}
	assert.ErrorIs(t, discord.Validate(), discordsim.ErrConfig)
	_, err := Run(t.Context(), Config{Load: together(t, 1, 1), Discord: discord, MaxRateLimits: []time.Duration{second}})
	assert.ErrorIs(t, err, discordsim.ErrConfig)
	assert.NoError(t, usual.Validate())
}

func TestBottleneckIsNamed(t *testing.T) {
	t.Parallel()
	steady := Traffic{Requests: 2400, Length: 20 * time.Minute, Channels: 1, Mix: messages, Seed: 1}

	b := compare(t, generate(t, steady), usual, 0, 10*second).Bottleneck
	require.NotNil(t, b)
	assert.Equal(t, "POST /channels/{channel_id}/messages of channel 900000000000000000", b.Name)
	assert.InDelta(t, 2, b.Asked, 0.01)
	assert.Equal(t, 5, b.Limit)
	assert.InDelta(t, 5*second, b.Period, float64(second), "as the client knew it")
	assert.True(t, b.Lasting, "two per second where one is allowed")
	assert.InDelta(t, 1200, b.Refused, 60)

	steady.Requests = 600 // half of what is allowed
	steady.Burst, steady.BurstEvery = 40, 5*time.Minute
	b = compare(t, generate(t, steady), usual, 0, 10*second).Bottleneck
	require.NotNil(t, b)
	assert.False(t, b.Lasting)
	assert.Greater(t, b.Longest, 10*second)
	assert.Less(t, b.Longest, 60*second)

	steady.Channels, steady.Requests = 100, 2400
	discord := usual
	discord.GlobalLimit = 1
	b = compare(t, generate(t, steady), discord, 0, 10*second).Bottleneck
	require.NotNil(t, b)
	assert.Empty(t, b.Name, "the global limit")
	assert.InDelta(t, 2.1, b.Asked, 0.01, "bursts and all")
	assert.Equal(t, 1, b.Limit)
	assert.True(t, b.Lasting)

	b = compare(t, together(t, 1, 20), usual, 0, 10*second).Bottleneck
	require.NotNil(t, b)
	assert.Zero(t, b.Asked, "all at one moment")
	assert.False(t, b.Lasting)
}

func TestRulesApplyToTheirRoutes(t *testing.T) {
	t.Parallel()
	discord := usual
	discord.Rules = []discordsim.Rule{{Method: "POST", Path: "/channels/{channel.id}/messages", Quota: discordsim.Fixed(20, 5*second)}}
	assert.Equal(t, []int{0}, refused(compare(t, together(t, 1, 20), discord, 0, second)))
	discord.Rules[0].Quota = discordsim.Unlimited()
	assert.Equal(t, []int{0}, refused(compare(t, together(t, 1, 20), discord, 0, second)))
	discord.Rules[0].Method = "GET"
	assert.Equal(t, []int{15}, refused(compare(t, together(t, 1, 20), discord, 0, second)))

	load := together(t, 1, 3)
	for path, fits := range map[string]bool{
		"/channels/{channel.id}/messages": true, "/channels/900000000000000000/messages": true,
		"/channels/{channel.id}": false, "/channels/{channel.id}/messages/{message.id}": false,
	} {
		assert.Equal(t, fits, load.CheckRules([]discordsim.Rule{{Method: "POST", Path: path}}) == nil, path)
	}
	reaction, err := compile(routes.AddMyMessageReaction, 0)
	require.NoError(t, err)
	load.add(0, load.queue(reaction))
	err = load.CheckRules([]discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages"}, {Method: "GET", Path: "/channels/{id}/messages"}})
	assert.EqualError(t, err, `-rule, number 2: no request of the load is for that route: expected one of these:
  POST /channels/{channel_id}/messages (3)
  PUT /channels/{channel_id}/messages/{message_id}/reactions/{emoji_name}/@me (1)`)
}

func TestRuleThatComesTooLateIsRefused(t *testing.T) {
	t.Parallel()
	load := together(t, 2, 3)
	messages, first := "/channels/{id}/messages", "/channels/900000000000000000/messages"
	assert.EqualError(t, load.CheckRules([]discordsim.Rule{{Method: "POST", Path: messages}, {Method: "POST", Path: "/channels/{channel.id}/messages"}}),
		"-rule, number 2 has no effect: number 1 is for the same requests; omit one of them")
	require.Error(t, load.CheckRules([]discordsim.Rule{{Method: "POST", Path: messages}, {Method: "POST", Path: first}}))
	require.NoError(t, load.CheckRules([]discordsim.Rule{{Method: "POST", Path: first}, {Method: "POST", Path: messages}}), "for the other channel")
}

func TestLoadThatNoLimitDelaysIsNotJudged(t *testing.T) {
	t.Parallel()
	r := compare(t, together(t, 1, 3), usual, 0.01, second, 5*second)
	verdict := r.Report().Verdict
	assert.Equal(t, "not-judged", string(verdict.Status))
	assert.Equal(t, "no limit made a request wait, so all values do the same; 3 requests in 0 s cannot tell which one to set", verdict.Line)
	assert.Equal(t, -1, r.Recommended)
	assert.Equal(t, "–", r.Report().Facts[0].Value.String(), "nothing is recommended")
	assert.Equal(t, "passed", string(compare(t, together(t, 1, 6), usual, 0.01, 10*second).Report().Verdict.Status), "the sixth one waits")
}

func TestPartsDoNotContradictTheVerdict(t *testing.T) {
	t.Parallel()
	verdict := func(refused int) (string, string) {
		result := Result{MaxRateLimit: second, Requests: 1_000_000, Refused: refused, global: tally{Refused: refused}}
		r := newReport(Config{Load: newLoad(), Acceptable: 0.01}, []Result{result}).Report()
		return r.Verdict.Line, r.Tables[0].Rows[0][2].String()
	}
	line, part := verdict(10_001)
	assert.Equal(t, "no value refuses 1 % or less; the largest, 1 s, refuses 1.0001 %", line)
	assert.Equal(t, "1.0001 %", part)
	line, part = verdict(1)
	assert.Contains(t, line, "refuses 1 % or less (0.0001 %)")
	assert.Equal(t, "0.0001 %", part, "not nothing")
	line, _ = verdict(10_000)
	assert.Contains(t, line, "refuses 1 % or less (1 %)")
}

func TestRefusingNothingIsRecommendedWhereItIsCheap(t *testing.T) {
	t.Parallel()
	value := func(limit time.Duration, refused int, longest time.Duration) Result {
		return Result{MaxRateLimit: limit, Requests: 1000, Refused: refused, Queued: load.Queued{Max: longest}, global: tally{Refused: refused, Waited: longest}}
	}
	for _, test := range []struct {
		values []Result
		want   int
		line   string
	}{
		{[]Result{value(5*second, 62, 5*second), value(10*second, 7, 10*second), value(30*second, 0, 20*second)}, 2,
			"30 s refuses nothing, and nobody waits longer than 20.00 s; 10 s would refuse 0.70 %"},
		{[]Result{value(10*second, 7, 10*second), value(300*second, 0, 40*second)}, 0,
			"10 s is the smallest value that refuses 1 % or less (0.70 %); 300 s refuses nothing, but requests wait up to 40.00 s"},
		{[]Result{value(20*second, 7, 20*second), value(300*second, 0, 40*second)}, 1,
			"300 s refuses nothing, and nobody waits longer than 40.00 s; 20 s would refuse 0.70 %"},
		{[]Result{value(10*second, 7, 10*second), value(30*second, 1, 30*second)}, 0,
			"10 s is the smallest value that refuses 1 % or less (0.70 %); smaller ones were not tried"},
		{[]Result{value(10*second, 70, 10*second), value(30*second, 0, 20*second)}, 1,
			"30 s is the smallest value that refuses 1 % or less (0 %); 10 s refuses 7 %"},
		{[]Result{value(10*second, 70, 10*second)}, -1, "no value refuses 1 % or less; the largest, 10 s, refuses 7 %"},
	} {
		r := newReport(Config{Load: newLoad(), Acceptable: 0.01}, test.values)
		assert.Equal(t, test.want, r.Recommended, test.line)
		assert.Equal(t, test.line, r.verdict().Line)
	}
}

// Also when few enough requests are refused, or none at all, one wants to know what they wait for.
func TestTheBottleneckIsAlwaysNamed(t *testing.T) {
	t.Parallel()
	few := compare(t, together(t, 1, 20), usual, 0.3, 11*second)
	require.Equal(t, 0, few.Recommended)
	assert.Equal(t, 5, few.Bottleneck.Refused)
	assert.Contains(t, few.Bottleneck.Name, "of channel")

	none := compare(t, together(t, 2, 20), usual, 0, 20*second)
	require.Zero(t, none.Results[0].Refused)
	require.NotNil(t, none.Bottleneck)
	assert.Contains(t, none.Bottleneck.Name, "of channel")
	assert.InDelta(t, (5+10+15)*5, none.Bottleneck.Waited.Seconds(), 5)
	assert.InDelta(t, 15, none.Bottleneck.Longest.Seconds(), 1)

	global := compare(t, together(t, 100, 1), usual, 0, 20*second)
	require.NotNil(t, global.Bottleneck)
	assert.Empty(t, global.Bottleneck.Name)
	assert.Equal(t, 50, global.Bottleneck.Limit)
	assert.Positive(t, global.Bottleneck.Waited)

	assert.Nil(t, compare(t, together(t, 1, 1), usual, 0, 20*second).Bottleneck, "nobody waits")
}

// A client that refuses nothing is never told the limit, and a program that reads the JSON must not take it for 0.
func TestBottleneckStatesNoLimitThatWasNeverLearnt(t *testing.T) {
	t.Parallel()
	stated := func(value time.Duration) map[string]any {
		facts := make(map[string]any)
		for _, fact := range compare(t, together(t, 1, 20), usual, 0, value).Report().Facts {
			facts[fact.Key] = fact.Value.Data
		}
		return facts
	}
	for _, key := range []string{"bottleneck.limit", "bottleneck.period_seconds", "bottleneck.lasting"} {
		assert.Nil(t, stated(time.Minute)[key], key)
		assert.NotNil(t, stated(time.Second)[key], key)
	}
}

package tune

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms     = time.Millisecond
	second = time.Second
)

// usual returns a server with one limit for all routes.
func usual(quota discordsim.Quota) Discord {
	return Discord{
		Others: []discordsim.Rule{{Path: "/**", Quota: quota}}, GlobalLimit: 50,
		Latency: discordsim.Latency{RoundTrip: 100 * ms, Jitter: 50 * ms}, Seed: 1,
	}
}

var fixed = usual(discordsim.Fixed(5, 5*second))

// hour returns the requests of a small bot: messages at random times to a few channels, and bursts.
func hour(seed uint64) *Load {
	var b strings.Builder
	random := rand.New(rand.NewPCG(seed, 1))
	for range 700 {
		fmt.Fprintf(&b, "%.6f,POST,/channels/%d/messages\n", random.Float64()*3600, 1+random.IntN(1+random.IntN(3)))
	}
	for burst := range 5 {
		b.WriteString(strings.Repeat(fmt.Sprintf("%d,POST,/channels/%d/messages\n", 600*(burst+1), 1+random.IntN(3)), 20))
	}
	load, err := ReadTrace("hour", strings.NewReader(b.String()))
	if err != nil {
		panic(err)
	}
	return load
}

// read returns the load of a trace. Each line is a time in seconds, a count, and a path; the method is POST.
func read(t *testing.T, lines ...string) *Load {
	t.Helper()
	var b strings.Builder
	for _, line := range lines {
		var at, path string
		var count int
		_, err := fmt.Sscan(line, &at, &count, &path)
		require.NoError(t, err)
		b.WriteString(strings.Repeat(at+",POST,"+path+"\n", count))
	}
	load, err := ReadTrace("trace", strings.NewReader(b.String()))
	require.NoError(t, err)
	return load
}

func run(t *testing.T, load *Load, discord Discord, useful time.Duration, values ...time.Duration) *Report {
	t.Helper()
	config := Config{Load: load, Discord: discord, Useful: useful, MaxRateLimits: values}
	r, err := Run(t.Context(), config)
	require.NoError(t, err)
	return r
}

// result returns the result of a value.
func (r *Report) result(t *testing.T, value time.Duration) Result {
	t.Helper()
	i := slices.IndexFunc(r.Results, func(v Result) bool { return v.MaxRateLimit == value })
	require.GreaterOrEqual(t, i, 0, value)
	return r.Results[i]
}

// Twenty requests are made at once, and five may be sent in five seconds. The first one is sent alone and shows the
// limit.
func TestBothSidesByHand(t *testing.T) {
	t.Parallel()
	trace := []string{"0 20 /channels/1/messages", "60 1 /channels/1/messages"}
	for _, quota := range []discordsim.Quota{discordsim.Fixed(5, 5*second), discordsim.Sliding(5, 5*second)} {
		r := run(t, read(t, trace...), usual(quota), 12*second, 0, 6*second, time.Minute)
		none, six, all := r.result(t, 0), r.result(t, 6*second), r.result(t, time.Minute)
		assert.Equal(t, 19, none.Refused)
		assert.Equal(t, 10, six.Refused, "of the third and the fourth window")
		assert.Equal(t, 10, six.InVain, "if nothing is refused, these ten wait less than 12 s")
		assert.Zero(t, six.Late)
		assert.Zero(t, all.Refused)
		assert.Equal(t, 5, all.Late, "those of the fourth window")
		assert.InDelta(t, 15*second, all.Max, float64(600*ms))

		best := r.Results[r.Smallest]
		assert.Equal(t, 11*second, best.MaxRateLimit, "two windows and round trips")
		assert.Equal(t, []int{5, 0, 0}, []int{best.Refused, best.InVain, best.Late})
		text := written(t, r)
		assert.Contains(t, text, "\nOK: 11 s is the smallest max rate limit that refuses nothing "+
			"that could have left within 12 s; values up to 12 s do the same.\n")
		assert.Contains(t, text, "\nRecommended: 11 s refuses 5 requests, which could not have left within 12 s.\n")
		assert.Contains(t, text, "\nLarger: with 60 s, 5 requests wait longer than 12 s, the longest 15.")
	}
}

func written(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.Report().WriteText(&b))
	return b.String()
}

func TestRecommendedValueIsTheSmallest(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		for _, d := range []Discord{fixed, usual(discordsim.Sliding(5, 5*second)), usual(discordsim.Leaky(5, 5*second))} {
			for _, useful := range []time.Duration{2 * second, 9 * second} {
				r := run(t, hour(seed), d, useful)
				assert.Equal(t, r.Results, run(t, hour(seed), d, useful).Results, "the same load, the same result")
				best := r.Results[r.Smallest]
				assert.Zero(t, best.InVain)
				smaller, err := simulate(t.Context(), r.Config, r.patient.waits, best.MaxRateLimit-stepOf(useful))
				require.NoError(t, err)
				assert.Positive(t, smaller.InVain, "%v with %v", useful, d.Others[0].Quota.Kind)
				refused := -1
				for _, v := range slices.Backward(r.Results) {
					assert.GreaterOrEqual(t, v.Refused, refused, "a larger value refuses no more")
					refused = v.Refused
					assert.Zero(t, v.Limited, "429s")
				}
			}
		}
	}
}

func TestLoadThatCannotTellIsNotJudged(t *testing.T) {
	t.Parallel()
	for want, load := range map[string]*Load{
		"no limit made a request wait, so all values do the same; 4 requests in 1m cannot": read(t,
			"0 3 /channels/1/messages", "60 1 /channels/1/messages"),
		"the load lasts 10.00 s, and POST /channels/{channel_id}/messages of channel 1 has windows of 5 s: " +
			"expected 3 windows or more": read(t,
			"0 10 /channels/1/messages", "10 1 /channels/1/messages"),
		"101 requests in 1m are for POST /channels/{channel_id}/messages of channel 1, and 5 per 5 s (fixed window) " +
			"allows 65: either": read(t,
			"0 100 /channels/1/messages", "60 1 /channels/1/messages"),
	} {
		r := run(t, load, fixed, 10*second)
		assert.Equal(t, report.NotJudged, r.verdict().Status)
		text := written(t, r)
		assert.Contains(t, text, "NOT JUDGED: "+want)
		assert.NotContains(t, text, "← recommended")
		assert.Regexp(t, `(?m)^recommended +–`, text)
	}
}

func TestRulesAreShown(t *testing.T) {
	t.Parallel()
	requests := read(t, "0 8 /channels/1/messages", "0 2 /channels/1/typing", "60 1 /channels/1/messages")
	d := fixed
	d.Given = []discordsim.Rule{{Method: "POST", Path: "/channels/{id}/messages", Quota: discordsim.Sliding(4, 3*second)}}
	text := written(t, run(t, requests, d, 10*second))
	assert.Contains(t, text, "\nrule: POST /channels/{id}/messages = 4 per 3 s (sliding log)\n"+
		"all other routes: 5 per 5 s (fixed window); at most 50 per second in all\n")
	assert.Regexp(t, `(?m)^POST /channels/\{channel_id\}/messages +9  4 per 3 s \(sliding log\) +rule$`, text)
	assert.Regexp(t, `(?m)^POST /channels/\{channel_id\}/typing +2  5 per 5 s \(fixed window\) +flags$`, text)
	d.Given, d.Others, d.Preset = nil, load.Preset(), true
	text = written(t, run(t, requests, d, 10*second))
	assert.Contains(t, text, "all routes: limits as measured at Discord")
	assert.Regexp(t, `(?m)^POST /channels/\{channel_id\}/messages +9  5 per 5 s \(token bucket\) +preset$`, text)
}

// Eighty requests at once wait for their buckets, and then for the global limit of two per second, which opens last.
func TestBottleneckIsTheLimitThatOpenedLast(t *testing.T) {
	t.Parallel()
	var lines []string
	for channel := 1; channel <= 8; channel++ {
		lines = append(lines, fmt.Sprintf("0 10 /channels/%d/messages", channel))
	}
	lines = append(lines, "300 1 /channels/1/messages")
	discord := usual(discordsim.Fixed(10, 5*second))
	discord.GlobalLimit = 2
	text := written(t, run(t, read(t, lines...), discord, 50*second))
	assert.Contains(t, text, "The bottleneck is the global limit: it opened last for 7")

	requests := read(t, "0 20 /channels/7/messages", "0 7 /channels/8/messages", "60 1 /channels/7/messages")
	text = written(t, run(t, requests, fixed, 11*second))
	assert.Regexp(t, `The bottleneck is POST /channels/\{channel_id\}/messages of channel 7: `+
		`it opened last for 1\d requests \(5 refused\), after 2m`, text)
}

func TestRoutesThatShareABucketShareItsCounter(t *testing.T) {
	t.Parallel()
	d := fixed
	d.Others = []discordsim.Rule{{Path: "/channels/{id}/**", Hash: "one", Quota: discordsim.Fixed(5, 5*second)}}
	r := run(t, read(t, "0 5 /channels/1/messages", "0 5 /channels/1/typing", "60 1 /channels/1/typing"), d, 20*second)
	assert.Len(t, r.limits, 2, "one bucket, and the global limit")
	assert.InDelta(t, 5*second, r.Results[r.Smallest].Max, float64(second))
}

func TestRuleWithoutEffectIsAnError(t *testing.T) {
	t.Parallel()
	load := read(t, "0 3 /channels/1/messages", "0 1 /channels/2/messages", "0 1 /channels/1/typing")
	rule := func(method, path string) discordsim.Rule { return discordsim.Rule{Method: method, Path: path} }
	all, first := rule("POST", "/channels/{id}/messages"), rule("POST", "/channels/1/messages")
	for _, second := range []discordsim.Rule{rule("GET", "/channels/{id}/messages"), first} {
		err := load.CheckRules([]discordsim.Rule{all, second})
		assert.ErrorContains(t, err, "-rule, number 2 has no effect on any request")
		assert.ErrorContains(t, err, "\n  POST /channels/{channel_id}/messages\n  POST /channels/{channel_id}/typing")
	}
	require.NoError(t, load.CheckRules([]discordsim.Rule{first, all}), "for the other channel")
}

package pages

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// judged runs a scenario in virtual time.
func judged(t *testing.T, name string) (result scenario.Result, log trace.Log) {
	t.Helper()
	found, err := scenario.Find(name)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		recorded := &trace.Trace{}
		result, err = found[0].Run(t.Context(), scenario.Settings{Seed: 1, Trace: recorded})
		require.NoError(t, err)
		log = recorded.Log()
	})
	return result, log
}

// marks counts the marks of each kind in the lanes of a drawing, as the script would find them.
func marks(drawing map[string]any, lanes func(label string) bool) map[string]int {
	counts := make(map[string]int)
	for _, lane := range drawing["lanes"].([]any) {
		lane := lane.(map[string]any)
		if !lanes(lane["label"].(string)) {
			continue
		}
		for kind, list := range lane["marks"].(map[string]any) {
			for i, n := range list.([]any) {
				if i%3 == 2 {
					counts[kind] += int(n.(float64))
				}
			}
		}
	}
	return counts
}

func channels(label string) bool { return strings.HasPrefix(label, "channel") }

func anything(string) bool { return true }

func TestScenarioIsDrawnAsItWas(t *testing.T) {
	t.Parallel()
	result, log := judged(t, "foreign-consumer")
	require.NotZero(t, result.Refused.User, "or else there is little to see")
	document := text(t, Scenarios([]scenario.Result{result}, []trace.Log{log}))
	drawn := drawings(t, document)
	require.Len(t, drawn, 6)
	requests := marks(drawn[0], channels)
	assert.Equal(t, result.Requests, requests["accepted"])
	assert.Equal(t, result.Refused.User, requests["unavoidable"])
	assert.Zero(t, requests["avoidable"])
	assert.GreaterOrEqual(t, requests["foreign"], 20, "two each second")
	assert.Equal(t, map[string]int{"unavoidable": result.Refused.Total()}, marks(drawn[1], anything))

	lane := drawn[0]["lanes"].([]any)[1].(map[string]any)
	assert.Equal(t, "channel 1", lane["label"])
	assert.Equal(t, "5 per 1 s, fixed", lane["note"])
	assert.Equal(t, 5.0, lane["top"])
	windows := lane["windows"].([]any)
	assert.Equal(t, []any{0.0, 1.0, 1.0, 2.0}, windows[:4], "they are aligned, and others open them")

	depth := drawn[2]["series"].([]any)[0].(map[string]any)["y"].([]any)
	assert.Equal(t, 0.0, depth[len(depth)-1], "nobody waits in the end")
	counted := 0.0
	for _, n := range drawn[4]["counts"].([]any) {
		counted += n.(float64)
	}
	assert.EqualValues(t, result.Requests, counted)

	parsed := parse(t, document)
	assert.Equal(t, "Scenario foreign-consumer", parsed.all("h1", "")[0].text)
	assert.Contains(t, parsed.all("div", "verdict")[0].text, "It reached its targets.")
	assert.Contains(t, parsed.text, "nothing the client knew spoke against it")
}

func TestBlocksAndHiddenLimitsAreShown(t *testing.T) {
	t.Parallel()
	result, log := judged(t, "global-block")
	drawn := drawings(t, text(t, Scenarios([]scenario.Result{result}, []trace.Log{log})))
	assert.Equal(t, []any{3.5, 8.0}, drawn[0]["blocks"])
	assert.Equal(t, result.Refused.Global, marks(drawn[0], func(label string) bool { return label == "global limit" })["unavoidable"])
	assert.Equal(t, result.Requests, marks(drawn[0], channels)["accepted"])

	result, log = judged(t, "shared-hidden")
	drawn = drawings(t, text(t, Scenarios([]scenario.Result{result}, []trace.Log{log})))
	hidden := marks(drawn[0], func(label string) bool { return label == "channel 1 shared limit" })
	assert.Equal(t, map[string]int{"accepted": result.Requests, "unavoidable": result.Refused.Shared}, hidden)

	result, log = judged(t, "cold-unlimited")
	drawn = drawings(t, text(t, Scenarios([]scenario.Result{result}, []trace.Log{log})))
	assert.Equal(t, "no limit", drawn[0]["lanes"].([]any)[0].(map[string]any)["note"])
	assert.Equal(t, result.Requests, marks(drawn[0], anything)["accepted"])
}

func TestScenariosHaveAnOverview(t *testing.T) {
	t.Parallel()
	good, goodLog := judged(t, "fixed-small")
	bad, badLog := judged(t, "leaky-bucket")
	bad.Missed = []string{"0.9 of the certain ideal"}
	cut := scenario.Result{Scenario: good.Scenario, Requests: 75, Interrupted: true, Missed: []string{"interrupted"}}
	cut.Scenario.Name = "cut"
	document := parse(t, text(t, Scenarios([]scenario.Result{good, bad}, []trace.Log{goodLog, badLog})))
	overview := document.all("section", "")[0]
	rows := overview.all("tbody", "")[0].all("tr", "")
	require.Len(t, rows, 2)
	assert.Equal(t, "#scenario-fixed-small", rows[0].all("a", "")[0].attrs["href"])
	assert.Contains(t, rows[0].text, "✓ ok")
	assert.Contains(t, rows[0].text, fmt.Sprintf("%.3f", good.Certain()))
	assert.Len(t, rows[0].all("span", "bar"), 2)
	assert.Contains(t, rows[1].text, "✕ missed")
	verdict := document.all("div", "verdict")[0]
	assert.Contains(t, verdict.text, "1 of 2 scenarios missed a target.")
	assert.Contains(t, verdict.text, "leaky-bucket: 0.9 of the certain ideal")
	folds := document.all("details", "fold")
	require.Len(t, folds, 2)
	assert.NotContains(t, folds[0].attrs, "open")
	assert.Contains(t, folds[1].attrs, "open", "what was missed is to be seen")

	document = parse(t, text(t, Scenarios([]scenario.Result{good, cut}, []trace.Log{goodLog, {}})))
	assert.Contains(t, document.all("div", "verdict")[0].text, "◼ Interrupted")
	assert.Contains(t, document.text, "There are no charts, as no request was made.")
}

// simulated is a load of 12 requests to two channels.
func simulated() load.Config {
	return load.Config{
		Requests: 12, MaxRateLimit: time.Minute, GlobalLimit: 50, Trace: &trace.Trace{},
		Simulated: load.Simulated{Channels: 2, Quota: discordsim.Fixed(6, 100*ms), Latency: discordsim.RoundTrip(2 * ms)},
	}
}

func TestLoadIsDrawnAsItWas(t *testing.T) {
	t.Parallel()
	config := simulated()
	result, err := load.Run(t.Context(), config)
	require.NoError(t, err)
	document := text(t, Load(config, result, output.Verdict{Passed: true}, config.Trace.Log()))
	drawn := drawings(t, document)
	assert.Equal(t, 12, marks(drawn[0], channels)["accepted"])
	assert.Equal(t, 12, marks(drawn[0], func(label string) bool { return label == "global limit" })["accepted"])
	parsed := parse(t, document)
	assert.Equal(t, "12 requests to 2 simulated channels", parsed.all("h1", "")[0].text)
	assert.Contains(t, parsed.all("div", "verdict")[0].text, "✓ OK 12 of 12 requests answered")
	assert.Contains(t, parsed.text, "No request was refused by the server.")
	assert.Less(t, len(document), 150_000)
}

func TestVerdictOfALoadHasItsReasons(t *testing.T) {
	t.Parallel()
	result := load.Result{Requests: 5, Answered: 3, Errors: map[string]int{"<reset>": 2}}
	page := Load(simulated(), result, output.Verdict{Reasons: []string{"2 of 5 requests failed"}}, trace.Log{})
	assert.Equal(t, Verdict{Failed, "Not all went as it was to go.", []string{"2 of 5 requests failed"}}, page.Verdict)
	assert.Contains(t, parse(t, text(t, page)).text, "<reset>")
	result.Interrupted = true
	page = Load(simulated(), result, output.Verdict{Reasons: []string{"interrupted"}}, trace.Log{})
	assert.Equal(t, Verdict{Status: Interrupted, Line: "3 of 5 requests answered."}, page.Verdict)
}

func TestRealLoadShowsNoParametersAndNoToken(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	config := load.Config{Requests: 3, Real: &load.Real{
		Target: &url.URL{Scheme: "https", Host: "discord.com"}, Path: "/api/v10/webhooks/123/" + secret, Token: "Bot " + secret,
	}}
	log := trace.Log{Lasted: time.Second, Passages: []trace.Passage{
		{Done: 300 * ms, Sends: []trace.Send{{At: 10 * ms, Back: 20 * ms, Status: 429, Class: ratelimits.ClassShared}, {At: 200 * ms, Back: 300 * ms, Status: 200}}},
		{Done: 600 * ms, Sends: []trace.Send{{At: 500 * ms, Back: 600 * ms, Status: 404}}},
		{Done: 700 * ms}, // never sent
	}}
	document := text(t, Load(config, load.Result{Requests: 3}, output.Verdict{Passed: true}, log))
	assert.NotContains(t, document, secret)
	assert.Contains(t, document, "GET /webhooks/{webhook_id}/{webhook_token}")
	drawn := drawings(t, document)
	assert.Equal(t, map[string]int{"accepted": 1, "broken": 1, "unjudged": 1}, marks(drawn[0], anything))
	assert.Equal(t, map[string]int{"unjudged": 1}, marks(drawn[1], anything))
	assert.Contains(t, document, "shared")
	assert.Contains(t, document, "Only the simulator can tell")
}

// crowd is a log of a great many requests to a great many buckets, one in ten refused.
func crowd(buckets, each int) (log trace.Log) {
	chance := rand.New(rand.NewPCG(1, 2))
	log.Lasted = time.Duration(each) * time.Second
	for n := range buckets {
		limit := &trace.Limit{Class: discordsim.ClassUser, Hash: "h", Major: fmt.Sprint(firstChannel + n), Quota: discordsim.Fixed(5, 10*ms)}
		log.Limits = append(log.Limits, limit)
		for i := range each {
			at := time.Duration(i)*time.Second + time.Duration(chance.Int64N(int64(time.Second)))
			call := trace.Call{At: at, Operation: "POST /x", Major: limit.Major, Bucket: limit, Use: i, Status: 200}
			if chance.IntN(10) == 0 {
				call.Status, call.Class, call.Verdict = 429, discordsim.ClassUser, discordsim.Unavoidable
			}
			log.Calls = append(log.Calls, call)
			limit.Uses = append(limit.Uses, trace.Use{At: at, Taken: true, Used: 1 + chance.IntN(5), ResetAfter: 10 * ms})
			log.Passages = append(log.Passages, trace.Passage{Done: at, Sends: []trace.Send{{At: at, Back: at + ms}}})
		}
	}
	return log
}

func TestSizeIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ buckets, each int }{{6000, 2}, {30, 1200}} {
		result := load.Result{Requests: 1, Errors: make(map[string]int)}
		for i := range 5000 {
			result.Errors[fmt.Sprint(i, strings.Repeat("x", 1000))] = 1
		}
		log := crowd(size.buckets, size.each)
		document := text(t, Load(simulated(), result, output.Verdict{}, log))
		assert.Less(t, len(document), 3_000_000)
		drawn := drawings(t, document)
		assert.Len(t, drawn[0]["lanes"], mostLanes+1)
		total := 0
		for kind, n := range marks(drawn[0], channels) {
			assert.Contains(t, []string{"accepted", "unavoidable"}, kind)
			total += n
		}
		assert.Equal(t, mostLanes*size.each, total, "marks are drawn as one, but none is lost")
		refused := 0
		for _, call := range log.Calls {
			if call.Class != discordsim.ClassNone {
				refused++
			}
		}
		assert.Equal(t, refused, marks(drawn[0], anything)["unavoidable"], "those in the last lane are marked, too")
		assert.Equal(t, refused, marks(drawn[1], anything)["unavoidable"])
		parsed := parse(t, document)
		notes := parsed.all("ul", "notes")[0].text
		assert.Contains(t, notes, fmt.Sprintf("Of %d buckets, the %d with the most requests are shown", size.buckets, mostLanes))
		assert.Contains(t, parsed.text, "4980 further kinds of errors")
		again := text(t, Load(simulated(), result, output.Verdict{}, log))
		assert.Equal(t, len(document), len(again))
		assert.True(t, document == again, "no chance is involved")
	}
}

func TestCurvesOverTimeAreWhatHappened(t *testing.T) {
	t.Parallel()
	log := &trace.Log{Lasted: 10 * time.Second, Passages: []trace.Passage{
		{HandedOver: 0, Done: 4 * time.Second, Sends: []trace.Send{
			{At: time.Second, Back: 2 * time.Second, Status: 429}, {At: 3 * time.Second, Back: 4 * time.Second, Status: 200},
		}},
		{HandedOver: 0, Done: 5 * time.Second}, // refused by the client
	}}
	waiting := curves(t, curveOverTime("", "waiting", waitingChanges(log), newClock(log.Lasted), "")).Series[0]
	assert.Equal(t, []float64{0, 1, 2, 3, 5, 10}, waiting.X)
	assert.Equal(t, []float64{2, 1, 2, 1, 0, 0}, waiting.Y)
	flying := curves(t, curveOverTime("", "flying", flightChanges(log), newClock(log.Lasted), "")).Series[0]
	assert.Equal(t, []float64{0, 1, 2, 3, 4, 10}, flying.X)
	assert.Equal(t, []float64{0, 1, 0, 1, 0, 0}, flying.Y)
	assert.Equal(t, []time.Duration{2 * time.Second}, queuedTimes(log), "both waits, without the round trip")
}

func TestUnitsSuitTheLengthOfTheRun(t *testing.T) {
	t.Parallel()
	for end, unit := range map[time.Duration]string{
		0: "ms", 300 * ms: "ms", 9 * time.Second: "s", time.Hour: "min", 24 * time.Hour: "h",
	} {
		assert.Equal(t, unit, newClock(end).unit, end)
	}
	clock := newClock(9 * time.Second)
	assert.Equal(t, 1.23457, clock.time(1234567*time.Microsecond))
}

func TestInterruptedBeforeAnythingWasSent(t *testing.T) {
	t.Parallel()
	log := trace.Log{Lasted: ms, Passages: []trace.Passage{{Done: ms}}}
	drawn, _ := charts(&log, meter.Queued{}, "run", false)
	assert.False(t, drawn[0].Drawn())
	assert.Equal(t, "No request was sent.", drawn[0].Summary)
	drawn, notes := charts(&trace.Log{}, meter.Queued{}, "run", true)
	assert.Empty(t, drawn)
	assert.Len(t, notes, 1)
}

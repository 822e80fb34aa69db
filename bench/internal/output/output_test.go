package output

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/internal/discordsim"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

var update = flag.Bool("update", false, "write what is printed into testdata, to be read before it is kept")

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "go test ./bench/internal/output -update renews it")
}

var simulated = load.Config{
	Requests: 500, MaxRateLimit: 5 * time.Minute, GlobalLimit: 50,
	Simulated: load.Simulated{
		Channels: 10, Quota: discordsim.Fixed(5, second),
		Latency: discordsim.Latency{RoundTrip: 20 * ms, Jitter: 10 * ms}, Seed: 1,
	},
}

var reading = meter.Reading{
	Queued: meter.Queued{Median: 4140 * ms, P90: 8200 * ms, P99: 9220 * ms, Max: 9223 * ms},
	Sent:   500, LargestInFlight: 36,
}

func answered() load.Result {
	return load.Result{
		Requests: 500, Answered: 500, Statuses: map[int]int{http.StatusOK: 500}, Errors: map[string]int{}, Took: 9240 * ms,
		Judged: true, Ideal: load.Ideal{Certain: 9110 * ms, Omniscient: 9010 * ms}, Reading: reading,
	}
}

func interrupted() load.Result {
	return load.Result{
		Requests: 500, Answered: 120, Statuses: map[int]int{http.StatusOK: 118, http.StatusNotFound: 2}, Took: 2140 * ms,
		RefusedEarly: 30, Errors: map[string]int{"connection refused": 1},
		Judged: true, Refused: discordsim.ByClass{User: 3, Shared: 12}, Avoidable: discordsim.ByClass{User: 1},
		Ideal: load.Ideal{Missing: "not stated, as not all requests were answered"}, Reading: reading, Interrupted: true,
	}
}

func real(t *testing.T) (load.Config, load.Result) {
	t.Helper()
	target, err := url.Parse("https://discord.com")
	require.NoError(t, err)
	config := load.Config{
		Requests: 20, Concurrency: 5, MaxRateLimit: 1500 * ms,
		Real: &load.Real{Target: target, Path: "/api/v10/webhooks/1/hunter2", Token: "Bot hunter2"},
	}
	return config, load.Result{
		Requests: 20, Answered: 20, Statuses: map[int]int{http.StatusOK: 20}, Errors: map[string]int{}, Took: 876 * ms,
		Ideal: load.Ideal{Missing: "only the simulator has one"}, Refused: discordsim.ByClass{Global: 1}, Reading: meter.Reading{Queued: meter.Queued{Max: 3 * ms}, LargestInFlight: 5},
	}
}

func TestLoadAsText(t *testing.T) {
	t.Parallel()
	config, result := real(t)
	tests := []struct {
		file    string
		config  load.Config
		result  load.Result
		verdict Verdict
	}{
		{"load.txt", simulated, answered(), Verdict{Passed: true}},
		{"load-interrupted.txt", simulated, interrupted(), Verdict{Reasons: []string{"interrupted"}}},
		{"load-failed.txt", simulated, answered(), Verdict{Reasons: []string{"0.986 of the certain ideal, and -min-efficiency wants 0.99"}}},
		{"load-real.txt", config, result, Verdict{Passed: true}},
	}
	for _, test := range tests {
		var b bytes.Buffer
		Load(&b, test.config, test.result, test.verdict)
		golden(t, test.file, b.Bytes())
		assert.NotContains(t, b.String(), "hunter2")
		fits(t, b.String())
	}
}

func fits(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(line), 121, line)
	}
}

func TestLoadAsJSON(t *testing.T) {
	t.Parallel()
	config, result := real(t)
	var b bytes.Buffer
	require.NoError(t, LoadJSON(&b, simulated, answered(), Verdict{Passed: true, Reasons: []string{}}))
	golden(t, "load.json", b.Bytes())
	b.Reset()
	require.NoError(t, LoadJSON(&b, config, result, Verdict{Passed: true, Reasons: []string{}}))
	golden(t, "load-real.json", b.Bytes())
	assert.NotContains(t, b.String(), "hunter2")
}

// results are one scenario that reached its targets, one that missed two and one without an ideal.
func results(t *testing.T) []scenario.Result {
	t.Helper()
	all, err := scenario.Find("all")
	require.NoError(t, err)
	return []scenario.Result{
		{
			Scenario: all[0], Requests: 75, Answered: 75, Errors: map[string]int{}, Took: 14280 * ms, Ideal: scenario.Ideal{Certain: 14150 * ms, Omniscient: 14010 * ms},
			LargestInFlight: 5, Queued: meter.Queued{Median: 7090 * ms, P99: 14200 * ms}, Inversions: 45,
		},
		{
			Scenario: all[3], Requests: 1000, Answered: 1000, Errors: map[string]int{}, Took: 12 * second, Ideal: scenario.Ideal{Certain: 9100 * ms, Omniscient: 9010 * ms},
			Refused: discordsim.ByClass{User: 7, Global: 12}, Avoidable: discordsim.ByClass{User: 7},
			LargestInFlight: 100, Queued: meter.Queued{Median: 4 * second, P99: 12 * second},
			Missed: []string{"0.7583 of the certain ideal, at least 0.97 wanted", "avoidable 429s: 7, none wanted"},
		},
		{
			Scenario: all[len(all)-1], Requests: 60, Answered: 60, Errors: map[string]int{}, Took: 11350 * ms, Refused: discordsim.ByClass{User: 36},
			Excused: discordsim.ByClass{User: 36}, LargestInFlight: 35, Queued: meter.Queued{Median: 60 * time.Microsecond, P99: 579 * ms},
		},
	}
}

func TestScenariosAsText(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	Scenarios(&b, results(t))
	golden(t, "scenarios.txt", b.Bytes())
	fits(t, b.String())
	b.Reset()
	Scenarios(&b, results(t)[:1])
	golden(t, "scenario.txt", b.Bytes())
	b.Reset()
	cut := results(t)[:1]
	cut[0].Interrupted, cut[0].Missed = true, []string{"interrupted"}
	Scenarios(&b, cut)
	assert.Contains(t, b.String(), "cut off")
	assert.Contains(t, b.String(), "INTERRUPTED")
	assert.NotContains(t, b.String(), "FAILED")
}

func TestScenariosAsJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, ScenariosJSON(&b, results(t)))
	golden(t, "scenarios.json", b.Bytes())
	b.Reset()
	require.NoError(t, ScenariosJSON(&b, nil))
	assert.Equal(t, "[]\n", b.String(), "an array in any case")
}

func TestScenarioListHasThemAll(t *testing.T) {
	t.Parallel()
	all := scenario.All()
	var text, document bytes.Buffer
	ScenarioList(&text, all)
	require.NoError(t, ScenarioListJSON(&document, all))
	var entries []struct{ Scenario, About string }
	require.NoError(t, json.Unmarshal(document.Bytes(), &entries))
	require.Len(t, entries, len(all))
	for i, s := range all {
		assert.Equal(t, s.Name, entries[i].Scenario)
		assert.Contains(t, text.String(), "\n"+s.Name+" ")
		assert.Contains(t, text.String(), s.About)
	}
}

func TestTimesHaveUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 60 * time.Microsecond: "0.06 ms", 9990 * time.Microsecond: "9.99 ms", 10 * ms: "10 ms", 573*ms + 400: "573 ms",
		second: "1.00 s", 93_456 * ms: "93.46 s",
	} {
		assert.Equal(t, want, seconds(d))
	}
	for d, want := range map[time.Duration]string{
		0: "0 s", 20 * ms: "20 ms", second: "1 s", 1500 * ms: "1.5 s", 5 * time.Minute: "300 s", 1500 * time.Microsecond: "0.0015 s",
	} {
		assert.Equal(t, want, setting(d))
	}
}

package pages

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/trace"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// withAccidents is a run in which one was harmless and the other one was not.
func withAccidents() (processes.Settings, []processes.Result, []trace.Log) {
	settings := processes.Settings{Processes: 3, Length: 70 * time.Second, Disturb: true}
	r := processes.Result{
		Scenario: processes.Scenarios(settings)[0], Processes: 3, Length: 40 * time.Second, Requests: 20, Answered: 20, Took: 4 * time.Second,
		Pairs: 100, Inverted: 1, Refused: discordsim.ByClass{User: 1}, Shared: true, Calls: processes.Effort{Calls: 60}, LateRequests: 10,
		Late: processes.Effort{Calls: 20}, Stalled: time.Second,
		Seconds: []processes.Second{{Served: 5, Calls: 20}, {Served: 0, Calls: math.NaN()}, {Served: 10, Calls: 20, Refused: 1}, {Served: 5, Calls: 20}},
		Accidents: []processes.Accident{
			{Name: "it is <frozen>", At: time.Second, Until: 2 * time.Second, Before: 5, Back: 20 * time.Millisecond, Served: 50 * time.Millisecond, Refused: 1, RefusedBuckets: 1},
			{Name: "it is killed", At: 3 * time.Second, Until: 3 * time.Second, Before: 5, Lost: 7, Back: -1, Missed: []string{"it is killed: the rate was not back"}},
		},
		Missed: []string{"it is killed: the rate was not back"},
	}
	log := trace.Log{Lasted: 4 * time.Second, Passages: []trace.Passage{{Done: time.Second, Sends: []trace.Send{{At: time.Second / 2, Back: time.Second, Status: 200}}}}}
	return settings, []processes.Result{r}, []trace.Log{log}
}

func TestPageOfAccidents(t *testing.T) {
	t.Parallel()
	written := text(t, Processes(withAccidents()))
	document := parse(t, written)
	assert.Equal(t, "3 processes that share limits, and accidents", document.all("h1", "")[0].text)
	assert.Contains(t, document.all("div", "failed")[0].text, "it is killed: the rate was not back")
	tables := document.all("table", "")
	assert.Equal(t, []string{"one-bucket", "✕ missed", "20/20", "4.00 s", "–", "1 user", "1 %", "3.000", "2.000", "0 µs", "0 s", "–", "0 s"}, rows(tables[0])[0])
	assert.Equal(t, [][]string{
		{"1", "it is <frozen>", "1 s", "2 s", "5.0/s", "0", "20 ms", "50 ms", "1", "0", "1", "0", "✓ ok"},
		{"2", "it is killed", "3 s", "–", "5.0/s", "7", "never", "0 s", "0", "0", "0", "0", "✕ missed"},
	}, rows(tables[1]))

	chart := drawings(t, written)[0]
	assert.Equal(t, "curves", chart["kind"])
	assert.Equal(t, []any{
		map[string]any{"from": 1.0, "to": 2.0, "name": "1"}, map[string]any{"from": 3.0, "to": 3.0, "name": "2"},
	}, chart["events"])
	var names []string
	for _, series := range chart["series"].([]any) {
		names = append(names, series.(map[string]any)["name"].(string))
	}
	assert.Equal(t, []string{"requests", "engine calls", "429s"}, names, "nobody had an error")
	assert.Equal(t, []any{0.0, 2.0, 3.0, 4.0}, chart["series"].([]any)[1].(map[string]any)["x"], "a second in which the engine was silent")
	figure := document.all("figure", "")[0].text
	assert.Contains(t, figure, "It is <frozen> at 1 s: the rate was back 20 ms after its end. It is killed at 3 s: the rate was back never.")
	assert.Contains(t, figure, "calls are left out")
	assert.Contains(t, figure, "2: it is killed")
	assert.NotContains(t, written, "<frozen>")
	assert.Contains(t, document.all("ul", "notes")[1].text, "This machine was too busy: the simulated Discord was once 1.00 s behind")
}

func TestPageOfProcessesThatReachedTheirTargets(t *testing.T) {
	t.Parallel()
	settings := processes.Settings{Processes: 2, Length: 20 * time.Second}
	var results []processes.Result
	for _, s := range processes.Scenarios(settings) {
		results = append(results, processes.Result{
			Scenario: s, Processes: 2, Length: settings.Length, Requests: 10, Answered: 10, Took: 2 * time.Second, Ideal: processes.Ideal{Took: 1960 * time.Millisecond},
			Seconds: []processes.Second{{Served: 5}, {Served: 5}},
		})
	}
	document := parse(t, text(t, Processes(settings, results, make([]trace.Log, len(results)))))
	assert.Contains(t, document.all("div", "passed")[0].text, "5 scenarios reached all targets.")
	assert.Len(t, document.all("details", "fold"), 5)
	for _, section := range document.all("section", "")[1:] {
		assert.True(t, strings.HasPrefix(section.attrs["id"], "processes-"))
		assert.Contains(t, section.text, "0.980")
		assert.NotContains(t, section.text, "Engine calls: ", "nothing is shared")
	}

	results[0].Length = 3 * time.Second
	assert.Contains(t, Processes(settings, results, make([]trace.Log, len(results))).Verdict.Line, "too short to be judged by all targets")
}

func TestPageOfWhatIsNotJudgedSaysSo(t *testing.T) {
	t.Parallel()
	settings, results, logs := withAccidents()
	settings.Outage = "share"
	results[0].Scenario, results[0].Missed = processes.Scenarios(settings)[0], nil
	page := Processes(settings, results, logs)
	assert.Equal(t, notJudged, page.Verdict.Line)
	for _, row := range rows(parse(t, text(t, page)).all("table", "")[1]) {
		assert.Equal(t, "–", row[len(row)-1], "no accident is, either")
	}

	results[0].Interrupted = true
	page = Processes(settings, results, logs)
	assert.Equal(t, Interrupted, page.Verdict.Status)
	require.NotEmpty(t, page.Sections)
}

package report_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

// sample returns a report that has everything that a report can have, with the given text wherever a text is possible.
func sample(text string) *report.Report {
	return &report.Report{
		Title: text, About: []string{text},
		Verdict: report.Verdict{Status: report.Failed, Line: text, Reasons: []string{text}},
		Facts: []report.Fact{
			{Name: text, Key: "one", Value: report.Text(text), Remark: text, Main: true},
			{Name: text, Key: "two.three", Value: report.Time(1500 * ms), Remark: text},
			{Key: "errors", Value: report.Data(map[string]int{text: 1})},
		},
		Tables: []report.Table{{Title: text, Key: "rows", Marked: 1, Mark: text,
			Columns: []report.Column{
				{Name: text, Key: "name", Left: true, Note: text}, {Name: "share", Key: "share"}, {Key: "hidden"}},
			Rows: [][]report.Value{{report.Text(text), report.Efficiency(0.5, 0.9), report.Count(7)}},
		}},
		Charts: []report.Chart{
			report.Bars{Title: text, Summary: text, Names: []string{text},
				Groups: []report.Group{{Name: text, Counts: []int{3}, Marked: true}}},
			burst(8, text),
		},
	}
}

// burst returns the timeline of requests that are made at once to a bucket of five.
func burst(requests int, path string) *report.Timeline {
	config := discordsim.Config{Rules: []discordsim.Rule{{Path: "**", Hash: "a", Quota: discordsim.Fixed(5, 5*ms)}}}
	timeline := report.NewTimeline()
	timeline.Observe(&config)
	start := time.Now()
	world, err := discordsim.NewWorld(start, config)
	if err != nil {
		panic(err)
	}
	for i := range requests {
		request := discordsim.Request{Method: "POST", Path: "/" + path, Authorization: "Bot a"}
		world.Handle(start.Add(time.Duration(i)*time.Microsecond), request)
	}
	return timeline
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, write(&b))
	return b.String()
}

func TestText(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `Things

Things  Things  Things
Things  1.50 s  Things

Things

Things  share
───────────────────────
Things  0.500  ← Things

Things  Things

Things

FAILED: Things.
`, written(t, sample("Things").WriteText))
	long := strings.Repeat("long ", 6)
	single := &report.Report{Parts: []*report.Report{{Name: "a", About: []string{"b"}, Facts: []report.Fact{
		{Name: "one", Value: report.Count(5), Remark: "c"}, {Name: "targets", Value: report.Text(long), Remark: "d"},
	}}}}
	assert.Equal(t, "a: b\n\none      5  c\ntargets     "+long+" d\n", written(t, single.WriteText), "remarks stay")
	assert.Equal(t, "FAILED: one; two.\n", written(t, (&report.Report{Verdict: report.Judge("", "one", "two")}).WriteText))
}

func TestJSON(t *testing.T) {
	t.Parallel()
	assert.JSONEq(t, `{"one": "Things", "two": {"three": 1.5}, "errors": {"Things": 1},
		"rows": [{"name": "Things", "share": 0.5, "hidden": 7}],
		"verdict": {"passed": false, "status": "failed", "reasons": ["Things"]}}`, written(t, sample("Things").WriteJSON))
	part := &report.Report{Name: "a", About: []string{"b"}, Facts: []report.Fact{{Key: "all"}}}
	assert.Contains(t, written(t, (&report.Report{Parts: []*report.Report{part}}).WriteJSON), `"all": null`, "missing")
}

func TestVerdictsAreTheSameInAllForms(t *testing.T) {
	t.Parallel()
	for status, want := range map[report.Status]struct {
		line, cell string
		good       bool
	}{
		report.Passed:      {"OK: 2 scenarios reached all targets.", "ok", true},
		report.Failed:      {"FAILED: 1 of 2 scenarios missed a target.", "MISSED", false},
		report.NotJudged:   {"NOT JUDGED: nothing was missed, but 1 of 2 scenarios", "not judged", true},
		report.Interrupted: {"INTERRUPTED: what was cut off is not judged.", "cut off", false},
	} {
		all := &report.Report{Title: "all", Parts: []*report.Report{
			{Name: "first", Verdict: report.Judge("fine")},
			{Name: "second", Verdict: report.Verdict{Status: status, Reasons: []string{"because"}}},
		}}
		all.Verdict = report.Together(all.Parts)
		text := written(t, all.WriteText)
		assert.Contains(t, text, "\n"+want.line)
		assert.Regexp(t, `(?m)^second +`+want.cell+`$`, text)
		badge := `<span class="badge ` + string(status) + `">`
		assert.Contains(t, written(t, all.WritePage), badge+strings.SplitN(want.line, ":", 2)[0])
		var objects []struct {
			Verdict struct {
				Passed  bool
				Reasons []string
			}
		}
		require.NoError(t, json.Unmarshal([]byte(written(t, all.WriteJSON)), &objects))
		assert.Equal(t, want.good, objects[1].Verdict.Passed)
		assert.Equal(t, []string{"because"}, objects[1].Verdict.Reasons)
		assert.Equal(t, want.good, all.Verdict.Good())
	}
}

func TestValuesAreReadable(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]report.Value{
		"–": {}, "0 s": report.Time(0), "52 µs": report.Time(52 * time.Microsecond), "500 ms": report.Time(500 * ms),
		"1.25 ms": report.Time(1250 * time.Microsecond), "1.50 s": report.Time(1500 * ms), "1.5 s": report.Setting(1500 * ms),
		"1h30m": report.Time(90 * time.Minute), "300 s": report.Setting(5 * time.Minute), "1.00 MB": report.Bytes(1 << 20),
		"2 user, 1 global": report.ByClass(discordsim.ByClass{User: 2, Global: 1}),
	} {
		assert.Equal(t, want, value.String())
	}
}

func TestPageEscapesAllTexts(t *testing.T) {
	t.Parallel()
	page := written(t, sample(`<script>alert("x")</script>'&`).WritePage)
	assert.NotContains(t, page, "<script")
	assert.NotContains(t, page, "http://", "the page must fetch nothing")
	for _, want := range []string{"&lt;script&gt;", "× request let through", "× avoidable 429", `class="window"`,
		"5 per 5 ms, fixed"} {
		assert.Contains(t, page, want)
	}
	assert.Less(t, len(burst(100_000, "x").SVG()), 500_000, "marks that lie on each other are one mark")
}

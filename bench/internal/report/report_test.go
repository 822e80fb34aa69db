package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

const ms = time.Millisecond

// everything is a report that has one of each, with one text wherever there can be one.
func everything(text string) *report.Report {
	return &report.Report{
		Title: text, About: []string{text}, Verdict: report.Verdict{Status: report.Failed, Line: text, Reasons: []string{text}}, Notes: []string{text},
		Facts: []report.Fact{
			{Name: text, Key: "one", Value: report.Text(text), Remark: text, Main: true},
			{Name: text, Key: "two.three", Value: report.Time(1500 * ms), Remark: text},
			{Key: "errors", Value: report.Data(map[string]int{text: 1})},
		},
		Tables: []report.Table{{Title: text, Key: "rows", Marked: 1, Mark: text,
			Columns: []report.Column{{Name: text, Key: "name", Left: true, Note: text}, {Name: "share", Key: "share"}, {Key: "hidden"}},
			Rows:    [][]report.Value{{report.Text(text), report.Efficiency(0.5, 0.9), report.Count(7)}},
		}},
		Charts: []report.Chart{{Title: text, X: report.Axis{Label: text}, Y: report.Axis{Label: text, Unit: "s"}, Names: []string{text}, Marked: 1,
			Series: []report.Series{{Name: text, Points: []report.Point{{X: 0, Y: 2}, {X: 1, Y: math.NaN()}}}, {Name: text}}}},
		Log: busy(3),
	}
}

// busy is what happened while so many requests, a millisecond apart, went to one bucket of five in 5 ms. The last ones
// are too many.
func busy(requests int) *report.Log {
	config := discordsim.Config{
		Global: discordsim.Unlimited(), Rules: []discordsim.Rule{{Path: "**", Hash: "a", Quota: discordsim.Fixed(5, 5*ms)}},
	}
	log := report.NewLog(true)
	log.Start(start)
	log.Observe(&config)
	world, err := discordsim.NewWorld(start, config)
	if err != nil {
		panic(err)
	}
	for i := range requests {
		at := time.Duration(i) * ms
		log.Add(report.Passage{Done: at + ms, Sends: []report.Send{{At: at, Back: at + ms, Status: 200, Class: ratelimits.ClassOK}}})
		world.Handle(start.Add(at), discordsim.Request{Method: "POST", Path: "/channels/900000000000000007/messages", Authorization: "Bot a"})
	}
	for range 6 {
		world.Handle(start.Add(log.Lasted), discordsim.Request{Method: "POST", Path: "/channels/900000000000000007/messages", Authorization: "Bot a"})
	}
	return log
}

func part(name string, verdict report.Verdict) *report.Report {
	r := everything("Things")
	r.Name, r.Verdict, r.Facts[0].Column = name, verdict, "thing"
	return r
}

func page(t *testing.T, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.WritePage(&b))
	return b.String()
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
─────────────────────────
Things  0.500  ← Things

Things  Things

Things

Things

FAILED: Things.
`, written(t, everything("Things").WriteText))
	long := strings.Repeat("long ", 6)
	single := &report.Report{Parts: []*report.Report{{Name: "a", About: []string{"b"}, Facts: []report.Fact{
		{Name: "one", Value: report.Count(5), Remark: "c"}, {Name: "targets", Value: report.Text(long), Remark: "d"},
	}}}}
	assert.Equal(t, "a: b\n\none      5  c\ntargets     "+long+" d\n", written(t, single.WriteText), "long values do not push remarks away")
	assert.Equal(t, "OK: 5 answered.\n", written(t, (&report.Report{Verdict: report.Judge("5 answered")}).WriteText))
	assert.Equal(t, "FAILED: one; two.\n", written(t, (&report.Report{Verdict: report.Judge("", "one", "two")}).WriteText))
}

func TestJSON(t *testing.T) {
	t.Parallel()
	const verdict = `"interrupted": false, "verdict": {"passed": false, "status": "failed", "reasons": ["Things"]}`
	const rest = `"one": "Things", "two": {"three": 1.5}, "errors": {"Things": 1}, "rows": [{"name": "Things", "share": 0.5, "hidden": 7}], `
	assert.JSONEq(t, "{"+rest+verdict+"}", written(t, everything("Things").WriteJSON))
	all := &report.Report{Title: "all", Parts: []*report.Report{part("a", report.Verdict{Status: report.Interrupted})}}
	assert.JSONEq(t, `[{"scenario": "a", "about": "Things", `+rest+
		`"interrupted": true, "verdict": {"passed": false, "status": "interrupted", "reasons": []}}]`, written(t, all.WriteJSON))
	assert.JSONEq(t, `{"all": null}`, written(t, (&report.Report{Facts: []report.Fact{{Key: "all"}}}).WriteJSON), "what is not stated")
}

// Whatever a verdict is in one form of output, it is in the others.
func TestVerdictsAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	for status, want := range map[report.Status]struct {
		line, cell, badge string
		good              bool
	}{
		report.Passed:      {"OK: 2 scenarios reached all targets.", "ok", "✓ OK", true},
		report.Failed:      {"FAILED: 1 of 2 scenarios missed a target.", "MISSED", "✕ Failed", false},
		report.Stalled:     {"STALLED: this machine stalled during 1 of 2 scenarios", "stalled", "◼ Stalled", false},
		report.NotJudged:   {"NOT JUDGED: nothing was missed, but 1 of 2 scenarios", "not judged", "– Not judged", true},
		report.Interrupted: {"INTERRUPTED: what was cut off is not judged.", "cut off", "◼ Interrupted", false},
	} {
		all := &report.Report{Title: "all", Parts: []*report.Report{
			part("first", report.Judge("fine")), part("second", report.Verdict{Status: status, Reasons: []string{"because"}}),
		}}
		all.Verdict = report.Together(all.Parts)
		text := written(t, all.WriteText)
		assert.Contains(t, text, "\n"+want.line)
		assert.Regexp(t, `(?m)^second +`+want.cell+` +Things$`, text)
		document := parse(t, page(t, all))
		assert.Contains(t, document.all("div", "verdict")[0].text, want.badge)
		assert.Contains(t, document.all("span", "badge")[1].text, want.badge)
		assert.Equal(t, want.cell, document.all("tbody", "")[0].children[1].children[1].text)
		var objects []struct{ Verdict struct{ Passed bool } }
		require.NoError(t, json.Unmarshal([]byte(written(t, all.WriteJSON)), &objects))
		assert.Equal(t, want.good, objects[1].Verdict.Passed)
		assert.Equal(t, want.good, all.Verdict.Good())
		if status != report.Passed {
			assert.Contains(t, text, "second: because")
		}
	}
}

func TestDemands(t *testing.T) {
	t.Parallel()
	demand := report.Demand{No429s: true, MinEfficiency: 0.95}
	assert.Equal(t, []string{"2 429s, and -fail-on-429 wants none", "0.9250 of the certain ideal, and -min-efficiency wants 0.95"}, demand.Missed(2, 0.925))
	assert.Empty(t, demand.Missed(0, 0.95))
	assert.Empty(t, demand.Missed(0, 0), "no efficiency is stated")
	assert.Empty(t, report.Demand{}.Missed(5, 0.1))
}

func TestValuesAreReadable(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]report.Value{
		"–": {}, "0 s": report.Time(0), "52 µs": report.Time(52 * time.Microsecond), "1.25 ms": report.Time(1250 * time.Microsecond), "500 ms": report.Time(500 * ms),
		"1.50 s": report.Time(1500 * ms), "1h30m": report.Time(90 * time.Minute), "300 s": report.Setting(5 * time.Minute), "1.5 s": report.Setting(1500 * ms),
		"0 %": report.Share(0), "0.001 %": report.Share(0.00001), "3.16 %": report.Share(0.0316), "25.0 %": report.Share(0.25), "1.00 MB": report.Bytes(1 << 20),
		"10.00000001 %": report.Share(0.1000000001, 0.1), "1.004 %": report.Share(0.01004, 0.01), "1 %": report.Share(0.01, 0.01), "99.99 %": report.Share(0.9999),
		"2 user, 1 global": report.ByClass(discordsim.ByClass{User: 2, Global: 1}), "0": report.ByClass(discordsim.ByClass{}), "5.0/s": report.Number(5, 1, "/s"),
	} {
		assert.Equal(t, want, value.String())
	}
}

// element is an element of a page, with the scripts and styles left out.
type element struct {
	name     string
	attrs    map[string]string
	text     string // its own and that of all below
	children []*element
}

var raw = regexp.MustCompile(`(?s)<(script|style)[^>]*>.*?</(script|style)>`)

// parse reads the document and fails if an element is not closed where it was opened.
func parse(t *testing.T, document string) *element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(raw.ReplaceAllString(document, "")))
	decoder.Entity = xml.HTMLEntity
	stack := []*element{{}}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attrs: make(map[string]string)}
			for _, attr := range token.Attr {
				e.attrs[attr.Name.Local] = attr.Value
			}
			parent := stack[len(stack)-1]
			parent.children = append(parent.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			for _, e := range stack {
				e.text += string(token)
			}
		}
	}
	return stack[0]
}

// all lists the elements of a name, and of a class if it is not empty.
func (e *element) all(name, class string) (found []*element) {
	for _, child := range e.children {
		if child.name == name && (class == "" || strings.Contains(" "+child.attrs["class"]+" ", " "+class+" ")) {
			found = append(found, child)
		}
		found = append(found, child.all(name, class)...)
	}
	return found
}

// drawings are the data of all charts in a document, as JSON.
func drawings(document string) (data []string) {
	for _, match := range regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(document, -1) {
		data = append(data, match[1])
	}
	return data
}

func TestPageHasWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	document := parse(t, page(t, everything("Things")))
	assert.Equal(t, "Things", document.all("h1", "")[0].text)
	assert.Len(t, document.all("div", "tile"), 1, "what is asked first")
	assert.Len(t, document.all("dl", "facts")[0].children, 1, "and the other fact with a name")
	assert.Equal(t, "Things Things", document.all("tr", "marked")[0].children[0].text)
	assert.Len(t, document.all("tr", "marked")[0].children, 2, "the hidden column is hidden")
	bar := document.all("span", "bar")[0]
	assert.Equal(t, "width:50%", bar.children[0].attrs["style"])
	assert.Equal(t, "left:90%", bar.children[1].attrs["style"])
	var titles []string
	for _, figure := range document.all("figure", "") {
		titles = append(titles, figure.all("h3", "")[0].text)
	}
	assert.Equal(t, []string{"Things", "Requests", "Queue depth", "In flight"}, titles)
	for _, plot := range document.all("div", "plot") {
		assert.Equal(t, "img", plot.attrs["role"])
		assert.Equal(t, "0", plot.attrs["tabindex"], "for the keyboard")
		assert.NotEmpty(t, plot.attrs["aria-label"])
	}
	assert.Contains(t, document.text, "429s by class")
	assert.Contains(t, document.text, "The MIT License", "the licence of what is inside")
}

func TestPartsAreFoldedBelowTheirOverview(t *testing.T) {
	t.Parallel()
	all := &report.Report{Title: "all", Parts: []*report.Report{part("first", report.Judge("", "bad")), part("second", report.Judge("good"))}}
	all.Verdict = report.Together(all.Parts)
	document := parse(t, page(t, all))
	assert.Equal(t, "#second", document.all("td", "left")[2].all("a", "")[0].attrs["href"])
	folds := document.all("details", "fold")
	require.Len(t, folds, 2)
	for _, fold := range folds {
		assert.NotContains(t, fold.attrs, "open", "a page of failures is not many screens long")
	}
	single := parse(t, page(t, &report.Report{Title: "Scenario first", Verdict: all.Verdict, Parts: all.Parts[:1]}))
	assert.Empty(t, single.all("details", "fold"), "there is nothing else to see")
	assert.NotEmpty(t, single.all("figure", ""))
}

func TestManyReasonsAreFolded(t *testing.T) {
	t.Parallel()
	r := &report.Report{Verdict: report.Verdict{Status: report.Failed, Line: "bad"}}
	for i := range 10_000 {
		r.Verdict.Reasons = append(r.Verdict.Reasons, fmt.Sprint(i, strings.Repeat("x", 10_000)))
	}
	text := page(t, r)
	assert.Less(t, len(text), 250_000)
	verdict := parse(t, text).all("div", "verdict")[0]
	assert.Len(t, verdict.all("details", "")[0].all("li", ""), 95)
	assert.Len(t, verdict.all("li", ""), 100)
}

func TestNothingBreaksOutOfItsPlace(t *testing.T) {
	t.Parallel()
	const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)>&amp;</style></title>` + "\u2028`${x}\\"
	document := page(t, everything(hostile))
	assert.Equal(t, 5, strings.Count(document, "<script"), "four charts with data, the program and nothing else")
	assert.NotContains(t, document, "<img")
	parsed := parse(t, document)
	assert.Equal(t, hostile, parsed.all("h1", "")[0].text)
	var chart struct{ Series []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(drawings(document)[0]), &chart))
	assert.Equal(t, hostile, chart.Series[0].Name)
}

// A page must not even be able to fetch anything.
func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	document := page(t, everything("Things"))
	assert.NotRegexp(t, `(?i)(src|href|action|data|poster|content)\s*=\s*["']?\s*(https?:)?//`, document)
	assert.NotRegexp(t, `(?i)@import|url\(|<link|<base|<iframe|<img|sourceMappingURL`, document)
	assert.NotRegexp(t, `\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b`, document)
	assert.Contains(t, document, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`)
	assert.Contains(t, document, "uPlot (v1.6.32)", "as uplot/README.md says")
}

// The size of a page does not follow the number of requests, and every one of them is counted.
func TestPageOfManyRequestsIsSmall(t *testing.T) {
	t.Parallel()
	log := busy(20_000)
	document := page(t, &report.Report{Log: log})
	assert.Less(t, len(document), 400_000)
	lanes := requests(t, log).Lanes
	drawn := lanes[len(lanes)-1]
	assert.Equal(t, "channel 7", drawn.Label)
	total := 0.0
	for i, x := range drawn.Marks["accepted"] {
		if i%3 == 2 {
			total += x
		}
	}
	assert.InDelta(t, 20_005, total, 0)
	assert.Len(t, drawn.Marks["avoidable"], 3, "one")
}

func TestFileIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path, link := filepath.Join(directory, "report.html"), filepath.Join(directory, "link.html")
	require.NoError(t, report.CheckFile(path))
	assert.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, []byte("before"), 0o600))
	require.NoError(t, report.CheckFile(path))
	require.NoError(t, os.Symlink("report.html", link))
	require.NoError(t, everything("Things").WriteFile(link))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(strings.TrimSpace(string(content)), "</html>"))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, info.Mode()&os.ModeSymlink, "the link stays a link")
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing is left behind")

	missing := filepath.Join(directory, "missing", "report.html")
	for path, want := range map[string]string{
		missing:   "no file can be created in the directory " + filepath.Dir(missing),
		directory: directory + " exists and is not a file",
	} {
		require.ErrorContains(t, report.CheckFile(path), want)
		require.ErrorContains(t, everything("Things").WriteFile(path), want)
	}
}

func TestProgressWithoutATerminalIsALine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := report.NewProgress(&b, 10)
	p.Begin("one")
	p.Step()
	p.End()
	assert.Equal(t, "one\n", b.String())
}

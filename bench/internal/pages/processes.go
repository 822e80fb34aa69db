package pages

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/processes"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

// Processes is the report of scenarios in which several processes share their limits: an overview, and a section for each. There is
// a log for each result.
func Processes(settings processes.Settings, results []processes.Result, logs []trace.Log) Page {
	page := Page{
		Title:   counted(settings.Processes, "process", "processes") + " that share limits",
		About:   capital(output.ProcessesSettings(settings)) + ".",
		Verdict: processesVerdict(results),
	}
	if settings.Disturb {
		page.Title += ", and accidents"
	}
	page.Sections = append(page.Sections, processesOverview(results))
	for i, result := range results {
		section := processesSection(result, logs[i])
		section.Foldable = len(results) > 1
		section.Open = section.Verdict.Status == Failed || settings.Disturb
		page.Sections = append(page.Sections, section)
	}
	return page
}

func processesVerdict(results []processes.Result) Verdict {
	verdict := Verdict{Status: Passed, Line: counted(len(results), "scenario reached its targets.", "scenarios reached all targets.")}
	missed := 0
	if slices.ContainsFunc(results, func(r processes.Result) bool { return r.Scenario.Targets.Anything }) {
		verdict.Line = notJudged
	}
	if slices.ContainsFunc(results, func(r processes.Result) bool { return len(r.NotJudged()) > 0 }) {
		verdict.Line = "Nothing was missed, but the run was too short to be judged by all targets."
	}
	for _, result := range results {
		switch processesStatus(result) {
		case Interrupted:
			return Verdict{Status: Interrupted, Line: "What was cut off is not judged."}
		case Failed:
			missed++
			verdict.Reasons = append(verdict.Reasons, shortened(result.Scenario.Name+": "+strings.Join(result.Missed, "; ")))
		}
	}
	if missed > 0 {
		verdict.Status, verdict.Line = Failed, fmt.Sprintf("%d of %s missed a target.", missed, counted(len(results), "scenario", "scenarios"))
	}
	return verdict
}

const notJudged = "This shows what the policy for outages costs, and nothing is judged."

func processesStatus(r processes.Result) Status {
	switch {
	case r.Interrupted:
		return Interrupted
	case len(r.Missed) > 0:
		return Failed
	}
	return Passed
}

func processesID(r processes.Result) string { return "processes-" + r.Scenario.Name }

// processesOverview is a table with a row for each scenario.
func processesOverview(results []processes.Result) Section {
	table := Table{Title: "Overview", Columns: []string{
		"<scenario", "<verdict", "answered", "time", "certain", "429s", "inverted pairs", "calls per request", "second half", "engine time",
		"queued, mean", "ideal", "99 %",
	}}
	for _, r := range results {
		status := processesStatus(r)
		verdict := map[Status]string{Passed: "✓ ok", Failed: "✕ missed", Interrupted: "◼ cut off"}[status]
		row := []Cell{{Text: r.Scenario.Name, Link: processesID(r)}, {Text: verdict, Status: status}}
		numbers := output.ProcessesRow(r)[1:]
		numbers = slices.Delete(numbers, len(numbers)-2, len(numbers)-1) // there is no room for the median
		for i, text := range numbers {
			cell := Cell{Text: text}
			switch {
			case i == 2:
				cell.Bar, cell.Target = r.Certain(), r.Scenario.Targets.Certain
			case i == 3 && r.Refused.Total() > 0:
				cell.Status = Failed
			}
			row = append(row, cell)
		}
		table.Rows = append(table.Rows, row)
	}
	return Section{ID: "overview", Tables: []Table{table}, Notes: []string{
		"certain: efficiency against one ideal client that must be sure before it sends, and does the work of all; the small mark is the target.",
		"inverted pairs: of the pairs of requests that two processes made one after the other, how many changed places, from a bucket's second window on.",
		"calls per request: scripts that the engine ran for each request, in all and in the second half; engine time: its own for each request.",
		"queued: time from handing a request to a client until it was sent: mean, that of the ideal client, 99th percentile.",
	}}
}

func processesSection(r processes.Result, log trace.Log) Section {
	section := Section{
		ID: processesID(r), Title: r.Scenario.Name, About: capital(r.Scenario.About) + ".", Verdict: Verdict{Status: processesStatus(r)},
		Tiles: processesTiles(r),
		Facts: []Facts{{"What it is judged by", []Fact{{"targets", strings.Join(r.Scenario.Targets.List(), ", "), ""}}}},
	}
	switch section.Verdict.Status {
	case Passed:
		section.Verdict.Line = "It reached its targets."
		if r.Scenario.Targets.Anything {
			section.Verdict.Line = notJudged
		}
	case Failed:
		section.Verdict.Line = "It missed a target."
		for _, missed := range r.Missed[:min(len(r.Missed), mostFailures)] {
			section.Verdict.Reasons = append(section.Verdict.Reasons, shortened(missed))
		}
	case Interrupted:
		section.Verdict.Line = "It was cut off and is not judged."
	}
	if len(r.Accidents) > 0 {
		section.Tables = []Table{accidentTable(r)}
	}
	var more []Chart
	more, section.Notes = charts(&log, r.Queued, section.ID, false)
	if len(r.Seconds) > 0 {
		section.Charts = []Chart{timeline(r, newClock(max(log.Lasted, r.Took)), section.ID)}
	}
	section.Charts = append(section.Charts, more...)
	if words := output.ProcessesBusy(r); words != "" {
		section.Notes = slices.Insert(section.Notes, 0, capital(words)+".")
	}
	if len(r.Accidents) > 0 {
		section.Notes = append(section.Notes,
			"requests lost: how many fewer came through until the next accident than at the rate before, or than were made.",
			"rate back after: from the end of the accident until the first request from which on the rate was what it had been.",
			"each bucket served after: the longest that requests waited until a bucket which the accident touched served one again.",
			"avoidable: 429s that a client which knew all would have avoided; in buckets: how many different ones refused something.")
	}
	return section
}

func processesTiles(r processes.Result) []Tile {
	tiles := []Tile{
		{Name: "answered", Value: fmt.Sprint(r.Answered), Remark: "of " + counted(r.Requests, "request", "requests"), Bad: r.Unanswered() > 0},
		{Name: "time taken", Value: measured(r.Took), Remark: "by " + counted(r.Processes, "process", "processes")},
	}
	if r.Ideal.Took > 0 {
		tiles = append(tiles, Tile{Name: "efficiency", Value: output.Part(r.Certain()), Remark: "of the certain ideal, " + measured(r.Ideal.Took)})
	}
	refused := Tile{Name: "429s", Value: fmt.Sprint(r.Refused.Total()), Bad: r.Refused.Total() > 0}
	if refused.Bad {
		refused.Remark = output.ProcessesClasses(r)
	}
	tiles = append(tiles, refused,
		Tile{Name: "queued, median", Value: measured(r.Queued.Median), Remark: "99 %: " + measured(r.Queued.P99)},
	)
	if r.Shared {
		all, late := r.CallsEach()
		tiles = append(tiles, Tile{Name: "calls per request", Value: fmt.Sprintf("%.3f", all), Remark: fmt.Sprintf("second half: %.3f", late)})
	}
	if r.Pairs > 0 {
		tiles = append(tiles, Tile{
			Name: "inverted pairs", Value: output.Percent(r.InvertedPart()), Remark: fmt.Sprintf("%d of %d", r.Inverted, r.Pairs), Bad: r.Inverted > 0,
		})
	}
	return tiles
}

func accidentTable(r processes.Result) Table {
	table := Table{Title: "Accidents", Columns: []string{"<", "<accident", "from", "to", "rate before", "requests lost", "rate back after", "each bucket served after", "429s", "avoidable", "in buckets", "errors", "<verdict"}}
	for i, a := range r.Accidents {
		row := append(Texts(fmt.Sprint(i+1)), Texts(output.AccidentRow(r, a)...)...)
		verdict := map[string]Cell{"ok": {Text: "✓ ok", Status: Passed}, "MISSED": {Text: "✕ missed", Status: Failed}, "–": {Text: "–"}}
		table.Rows = append(table.Rows, append(row, verdict[output.AccidentVerdict(r, a)]))
	}
	return table
}

// timeline is what happened in each second, with the accidents.
func timeline(r processes.Result, clock clock, sync string) Chart {
	line := func(name string, value func(processes.Second) float64) Series {
		s := Series{Name: name, Step: true}
		for i, second := range r.Seconds {
			s.Points = append(s.Points, Point{clock.time(time.Duration(i) * time.Second), value(second)})
		}
		last := s.Points[len(s.Points)-1]
		s.Points = append(s.Points, Point{clock.time(clock.end), last.Y})
		return s
	}
	lines := []Series{line("requests", func(s processes.Second) float64 { return float64(s.Served) })}
	if r.Shared {
		lines = append(lines, line("engine calls", func(s processes.Second) float64 { return s.Calls }))
	}
	lines = append(lines, line("429s", func(s processes.Second) float64 { return float64(s.Refused) }),
		line("errors", func(s processes.Second) float64 { return float64(s.Errors) }))
	// Of 429s and errors there are none if all goes well.
	lines = slices.DeleteFunc(lines, func(s Series) bool {
		return (s.Name == "429s" || s.Name == "errors") && !slices.ContainsFunc(s.Points, func(p Point) bool { return p.Y > 0 })
	})
	chart := Curves("In each second", clock.axis(), Axis{Label: "a second"}, lines...)
	chart.Wide = true
	data, ok := chart.data.(curvesData)
	if !ok {
		return chart
	}
	data.Sync, data.X.Max = sync, clock.time(clock.end)
	for i, a := range r.Accidents {
		name := fmt.Sprint(i + 1)
		data.Events = append(data.Events, eventData{clock.time(a.At), clock.time(a.Until), name})
		chart.Legend = append(chart.Legend, Legend{"event", name + ": " + a.Name})
	}
	chart.data = data
	chart.Summary = timelineWords(r, chart.Summary)
	return chart
}

// timelineWords adds what accidents cost.
func timelineWords(r processes.Result, words string) string {
	for _, a := range r.Accidents {
		words += fmt.Sprintf(" %s at %s: the rate was back ", capital(a.Name), output.Setting(a.At))
		if a.Back < 0 {
			words += "never."
		} else {
			words += measured(a.Back) + " after its end."
		}
	}
	if r.Shared && slices.ContainsFunc(r.Seconds[:len(r.Seconds)-1], func(s processes.Second) bool { return math.IsNaN(s.Calls) }) {
		words += " Where the engine did not say what it had done, calls are left out."
	}
	return words
}

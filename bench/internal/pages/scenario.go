package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

// Scenarios is the report of scenarios: an overview, and a section for each. There is a log for each result.
func Scenarios(results []scenario.Result, logs []trace.Log) Page {
	if len(results) == 1 {
		section := scenarioSection(results[0], logs[0])
		page := Page{Title: "Scenario " + results[0].Scenario.Name, About: section.About, Verdict: section.Verdict}
		section.Title, section.About, section.Verdict = "", "", Verdict{}
		page.Sections = []Section{section}
		return page
	}
	page := Page{Title: fmt.Sprintf("%d scenarios", len(results)), Verdict: scenariosVerdict(results)}
	page.Sections = append(page.Sections, overview(results))
	for i, result := range results {
		section := scenarioSection(result, logs[i])
		section.Foldable, section.Open = true, section.Verdict.Status == Failed
		page.Sections = append(page.Sections, section)
	}
	return page
}

func scenariosVerdict(results []scenario.Result) Verdict {
	verdict := Verdict{Status: Passed, Line: counted(len(results), "scenario reached its targets.", "scenarios reached all targets.")}
	missed := 0
	for _, result := range results {
		switch scenarioStatus(result) {
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

func scenarioStatus(r scenario.Result) Status {
	switch {
	case r.Interrupted:
		return Interrupted
	case len(r.Missed) > 0:
		return Failed
	}
	return Passed
}

func sectionID(r scenario.Result) string { return "scenario-" + r.Scenario.Name }

// overview is a table with a row for each scenario.
func overview(results []scenario.Result) Section {
	table := Table{Title: "Overview", Columns: []string{
		"<scenario", "<verdict", "answered", "time", "certain", "omniscient", "429s", "avoidable", "in flight", "queued, median", "queued, 99 %", "overtaken",
	}}
	for _, r := range results {
		status := scenarioStatus(r)
		verdict := map[Status]string{Passed: "✓ ok", Failed: "✕ missed", Interrupted: "◼ cut off"}[status]
		avoidable := Cell{Text: fmt.Sprint(r.Avoidable.Total())}
		if r.Avoidable.Total() > 0 {
			avoidable.Status = Failed
		}
		table.Rows = append(table.Rows, slices.Concat(
			[]Cell{{Text: r.Scenario.Name, Link: sectionID(r)}, {Text: verdict, Status: status}},
			Texts(fmt.Sprintf("%d/%d", r.Answered, r.Requests), measured(r.Took)),
			[]Cell{
				{Text: output.Part(r.Certain()), Bar: r.Certain(), Target: r.Scenario.Targets.Certain},
				{Text: output.Part(r.Omniscient()), Bar: r.Omniscient(), Target: r.Scenario.Targets.Omniscient},
			},
			Texts(output.Classes(r)), []Cell{avoidable},
			Texts(fmt.Sprint(r.LargestInFlight), measured(r.Queued.Median), measured(r.Queued.P99), fmt.Sprint(r.Inversions)),
		))
	}
	return Section{ID: "overview", Tables: []Table{table}, Notes: []string{
		"certain, omniscient: efficiency against the ideal client that must be sure before it sends, and against the one that sees into the server; the small mark is the target.",
		"queued: time from handing a request to the client until it was sent.",
		"overtaken: requests that reached the server after a later one of their bucket; only the scenario “ordered” promises none.",
	}}
}

func scenarioSection(r scenario.Result, log trace.Log) Section {
	section := Section{ID: sectionID(r), Title: r.Scenario.Name, About: capital(r.Scenario.About) + ".", Verdict: Verdict{Status: scenarioStatus(r)}}
	switch section.Verdict.Status {
	case Passed:
		section.Verdict.Line = "It reached its targets."
	case Failed:
		section.Verdict.Line = "It missed a target."
		for _, missed := range r.Missed[:min(len(r.Missed), mostFailures)] {
			section.Verdict.Reasons = append(section.Verdict.Reasons, shortened(missed))
		}
	case Interrupted:
		section.Verdict.Line = "It was cut off and is not judged."
	}
	section.Tiles = []Tile{
		{Name: "answered", Value: fmt.Sprint(r.Answered), Remark: "of " + counted(r.Requests, "request", "requests"), Bad: r.Unanswered() > 0},
		{Name: "time taken", Value: measured(r.Took), Remark: "until the last answer"},
		{Name: "efficiency", Value: output.Part(r.Certain()), Remark: "of the certain ideal"},
		{Name: "429s", Value: fmt.Sprint(r.Refused.Total()), Remark: fmt.Sprintf("%d avoidable", r.Avoidable.Total()), Bad: r.Avoidable.Total() > 0},
		{Name: "queued, median", Value: measured(r.Queued.Median), Remark: "99 %: " + measured(r.Queued.P99)},
		{Name: "in flight", Value: fmt.Sprint(r.LargestInFlight), Remark: "at once, at most"},
	}
	ideal := "not stated"
	if r.Ideal.Certain > 0 {
		ideal = measured(r.Ideal.Certain)
	}
	omniscient := "not stated"
	if r.Ideal.Omniscient > 0 {
		omniscient = measured(r.Ideal.Omniscient)
	}
	section.Facts = []Facts{{"Measured", []Fact{
		{"certain ideal", ideal, "efficiency " + output.Part(r.Certain()) + " against a client that must be sure before it sends"},
		{"omniscient ideal", omniscient, "efficiency " + output.Part(r.Omniscient()) + " against a client that sees into the server"},
		{"429s", output.Classes(r), fmt.Sprintf("%d avoidable, %d excused", r.Avoidable.Total(), r.Excused.Total())},
		{"overtaken", fmt.Sprint(r.Inversions), "requests that reached the server after a later one of their bucket"},
	}}, {"What it is judged by", []Fact{
		{"targets", strings.Join(r.Scenario.Targets.List(), ", "), ""},
		{"ideal by", r.Scenario.IdealBy, ""},
	}}}
	section.Charts, section.Notes = charts(&log, r.Queued, section.ID, false)
	return section
}

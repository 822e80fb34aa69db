package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// Report returns the measurements with a verdict.
func (r *Result) Report() *report.Report {
	s := r.scenario
	described := &report.Report{
		Name: s.Name, Title: "Load of " + report.Counted(r.Requests, "request"), About: strings.Split(s.About, "\n"),
		Verdict: r.verdict(), Facts: r.facts(),
	}
	if r.Timeline != nil {
		described.Charts = []report.Chart{r.Timeline}
	}
	if s.Name != "" {
		const overtaken = "requests that reached the server after a later one of their bucket"
		described.Title = "Scenario " + s.Name
		described.Facts = append(described.Facts,
			report.Fact{Name: "overtaken", Key: "overtaken", Value: report.Count(r.seen.Inversions), Remark: overtaken,
				Column: "over-\ntaken", Note: overtaken + "; only the scenario ordered promises none"},
			report.Fact{Name: "ideal by", Key: "ideal_by", Value: report.Text(s.IdealBy)})
		return described
	}
	described.Tables = []report.Table{kindsTable(r.seen.Buckets, r.known)}
	if s.config.Length > 0 {
		described.Facts = append(described.Facts, r.Leaks.facts()...)
	}
	described.Facts = append(described.Facts,
		report.Fact{Key: "statuses", Value: report.Data(r.Statuses)},
		report.Fact{Key: "refused_early", Value: report.Count(r.RefusedEarly)},
		report.Fact{Key: "given_up", Value: report.Count(r.GivenUp())})
	return described
}

// facts returns what loads and scenarios have in common.
func (r *Result) facts() []report.Fact {
	answered := report.Count(r.Answered).As(fmt.Sprintf("%d/%d", r.Answered, r.Requests)).Bad(r.Failed()+r.rejected() > 0)
	until := "until the last request had an outcome"
	if r.Answered == r.Requests {
		until = "until the last answer"
	}
	facts := []report.Fact{
		{Name: "answered", Key: "answered", Value: answered, Remark: r.statuses(), Column: "answered", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.Took), Remark: until, Column: "time", Main: true},
		{Name: "efficiency", Key: "efficiency", Value: report.Efficiency(r.Efficiency(), r.scenario.Targets.Efficiency), Main: true,
			Remark: cmp.Or(r.Ideal.Missing, "of the ideal"),
			Column: "effi-\nciency", Note: "the time of an ideal client, which must be sure before it sends, divided by the time taken"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.seen.Refused), Column: "429s", Main: true},
		{Name: "avoidable 429s", Key: "avoidable", Value: report.ByClass(r.seen.Avoidable).Bad(r.seen.Avoidable.Total() > 0), Column: "avoid-\nable", Main: true},
	}
	if r.RefusedEarly > 0 {
		facts = append(facts, report.Fact{Name: "refused at once", Value: report.Count(r.RefusedEarly), Main: true,
			Remark: "by the client: the predicted wait exceeds the max rate limit"})
	}
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		facts = append(facts, report.Fact{Name: "failed", Value: report.Count(r.Errors[text]).Bad(true), Remark: text})
	}
	if n := r.GivenUp(); n > 0 {
		facts = append(facts, report.Fact{Name: "given up", Value: report.Count(n), Remark: "when interrupted"})
	}
	return append(facts, r.times()...)
}

// times returns how long requests waited, the ideals, and how busy the machine was.
func (r *Result) times() []report.Fact {
	facts := []report.Fact{
		{Name: "in flight, most", Key: "largest_in_flight", Value: report.Count(r.seen.MaxInFlight), Remark: "requests under way at once",
			Column: "in\nflight", Note: "most requests under way at once"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.Queued.Median), Main: true,
			Remark: "held back by the client before the sending that was let through",
			Column: "queued\np50", Note: "time from handing a request to the client until it was sent and let through: median"},
		{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(r.Queued.P90), Remark: "so many were not held back longer"},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.Queued.P99),
			Column: "\np99", Note: "the 99th percentile of that"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.Queued.Max)},
	}
	ideal := "ideal"
	if r.Ideal.Time == 0 {
		ideal = "" // only in JSON
	}
	return append(facts,
		report.Fact{Name: ideal, Key: "ideal_seconds", Value: report.Stated(r.Ideal.Time), Remark: "time of a client that must be sure before it sends"},
		report.Fact{Name: "machine stalled", Key: "stalled_seconds", Value: report.Time(r.Stalled).Bad(r.Stalled > stallTolerated),
			Remark: "at once, at most", Column: "machine\nstalled",
			Note: "by how much a timer or an answer of the simulated Discord came late, at most"},
		report.Fact{Key: "requests", Value: report.Count(r.Requests)},
		report.Fact{Key: "errors", Value: report.Data(r.Errors)},
		report.Fact{Key: "excused", Value: report.ByClass(r.seen.Excused)},
	)
}

func (r *Result) statuses() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d with status %d", r.Statuses[status], status))
	}
	return strings.Join(parts, ", ")
}

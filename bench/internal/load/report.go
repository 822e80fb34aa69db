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
		idealBy := report.Fact{Name: "ideal by", Key: "ideal_by", Value: report.Text(s.IdealBy)}
		described.Facts = append(described.Facts, idealBy)
		return described
	}
	described.Tables = []report.Table{kindsTable(r.seen.Buckets, r.known)}
	if s.config.Length > 0 {
		described.Facts = append(described.Facts, r.Leaks.facts()...)
	}
	return described
}

func (r *Result) facts() []report.Fact {
	answered := report.Count(r.Answered).As(fmt.Sprintf("%d/%d", r.Answered, r.Requests)).Bad(r.Failed() > 0)
	facts := []report.Fact{
		{Name: "answered", Key: "answered", Value: answered, Column: "answered", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.Took), Remark: "until the last outcome",
			Column: "time", Main: true},
		{Name: "efficiency", Key: "efficiency", Main: true,
			Value:  report.Efficiency(r.Efficiency(), r.scenario.Targets.Efficiency),
			Remark: cmp.Or(r.Ideal.Missing, fmt.Sprintf("an ideal client takes %s", report.Time(r.Ideal.Time))),
			Column: "effi-\nciency",
			Note:   "the time of an ideal client, which must be sure before it sends, divided by the time taken"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.seen.Refused), Column: "429s", Main: true},
		{Name: "avoidable 429s", Key: "avoidable", Value: report.ByClass(r.seen.Avoidable).Bad(r.seen.Avoidable.Total() > 0),
			Column: "avoid-\nable", Main: true},
		{Name: "in flight, most", Key: "largest_in_flight", Value: report.Count(r.seen.MaxInFlight),
			Remark: "requests at once", Column: "in\nflight", Note: "most requests in flight at once"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.Queued.Median), Main: true,
			Remark: "from handing a request to the client until it was sent and let through",
			Column: "queued\np50",
			Note: "time from handing a request to the client until it was sent and let through: " +
				"median, 99th percentile"},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.Queued.P99), Column: "\np99"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.Queued.Max)},
		{Name: "overtaken", Key: "overtaken", Value: report.Count(r.seen.Inversions),
			Remark: "requests, by later ones of their bucket",
			Column: "over-\ntaken", Note: "requests that reached the server after a later one of their bucket; " +
				"only the scenario ordered promises none"},
		{Name: "machine stalled", Key: "stalled_seconds", Value: report.Time(r.Stalled).Bad(r.Stalled > stallTolerated),
			Remark: "the longest stall", Column: "machine\nstalled",
			Note: "the longest delay of a timer or of the simulated Discord"},
		{Key: "requests", Value: report.Count(r.Requests)},
		{Key: "errors", Value: report.Data(r.Errors)},
		{Key: "refused_early", Value: report.Count(r.RefusedEarly)},
		{Key: "given_up", Value: report.Count(r.GivenUp())},
		{Key: "ideal_seconds", Value: report.Stated(r.Ideal.Time)},
	}
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		facts = append(facts, report.Fact{Name: "failed", Value: report.Count(r.Errors[text]).Bad(true), Remark: text})
	}
	return facts
}

package scenario

import (
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// Report describes what happened.
func (r *Result) Report(demand report.Demand, log *report.Log) *report.Report {
	reasons := r.Missed
	if !r.Interrupted {
		reasons = append(reasons[:len(reasons):len(reasons)], demand.Missed(r.Refused.Total(), r.Certain())...)
	}
	verdict := report.Judge("it reached its targets", reasons...)
	if r.Interrupted {
		verdict = report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
	}
	s, queued := r.Scenario, r.Queued
	return &report.Report{Name: s.Name, Title: "Scenario " + s.Name, About: []string{s.About}, Verdict: verdict, Log: log, Facts: []report.Fact{
		{Name: "answered", Value: report.Text(fmt.Sprintf("%d/%d", r.Answered, r.Requests)).Bad(r.Unanswered() > 0), Column: "answered", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.Took), Remark: "until the last answer", Column: "time", Main: true},
		{Name: "efficiency", Key: "efficiency.certain", Value: report.Efficiency(r.Certain(), s.Targets.Certain), Remark: "of the certain ideal",
			Column: "certain", Note: "efficiency against the ideal client that must be sure before it sends", Main: true},
		{Name: "omniscient", Key: "efficiency.omniscient", Value: report.Efficiency(r.Omniscient(), s.Targets.Omniscient), Remark: "of the omniscient ideal",
			Column: "omnisc.", Note: "efficiency against the client that sees into the server"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.Refused), Column: "429s", Main: true},
		{Name: "avoidable 429s", Key: "avoidable", Value: report.ByClass(r.Avoidable).Bad(r.Avoidable.Total() > 0),
			Column: "avoid-\nable", Main: true},
		{Name: "in flight", Key: "largest_in_flight", Value: report.Count(r.LargestInFlight), Remark: "at once, at most",
			Column: "in\nflight", Note: "most requests under way at once"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(queued.Median), Main: true,
			Column: "queued\np50", Note: "time from handing a request to the client until it was sent: median"},
		{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(queued.P90)},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(queued.P99), Column: "\np99", Note: "the 99th percentile of that"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(queued.Max)},
		{Name: "overtaken", Key: "overtaken", Value: report.Count(r.Inversions), Remark: "requests that reached the server after a later one of their bucket",
			Column: "over-\ntaken", Note: "requests that reached the server after a later one of their bucket; only ordered promises none"},
		{Name: "certain ideal", Key: "ideal_seconds.certain", Value: report.Stated(r.Ideal.Certain), Remark: "of a client that must be sure before it sends"},
		{Name: "omniscient ideal", Key: "ideal_seconds.omniscient", Value: report.Stated(r.Ideal.Omniscient), Remark: "of a client that sees into the server"},
		{Name: "targets", Key: "targets", Value: report.List(s.Targets.List())},
		{Name: "ideal by", Key: "ideal_by", Value: report.Text(s.IdealBy)},
		{Key: "requests", Value: report.Count(r.Requests)},
		{Key: "answered", Value: report.Count(r.Answered)},
		{Key: "errors", Value: report.Data(r.Errors)},
		{Key: "excused", Value: report.ByClass(r.Excused)},
	}}
}

// List describes scenarios that are not run.
func List(scenarios []Scenario) *report.Report {
	list := &report.Report{Title: report.Counted(len(scenarios), "scenario")}
	for _, s := range scenarios {
		list.Parts = append(list.Parts, &report.Report{Name: s.Name, About: []string{s.About}, Facts: []report.Fact{
			{Name: "requests", Key: "requests", Value: report.Count(s.Requests()), Column: "requests"},
			{Name: "what happens", Value: report.Text(s.About), Column: "what happens"},
			{Key: "ideal_by", Value: report.Text(s.IdealBy)},
			{Key: "targets", Value: report.List(s.Targets.List())},
		}})
	}
	return list
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// busy is how far behind a simulator must be to spoil the figures: a fifth of a window.
const busy = 200 * time.Millisecond

// report judges what the run has recorded, and what the simulator has seen. All processes have ended.
func (r *run) report(seen discordsim.Report, c *shareCommand, interrupted bool) *report.Report {
	r.mu.Lock() // a request that the simulator has not finished does not count
	defer r.mu.Unlock()
	var queued []time.Duration
	answered, calls, took, errors := 0, 0, time.Duration(0), make(map[string]int)
	for _, one := range r.made {
		if one.processed > 0 {
			queued = append(queued, one.sent-one.handedOver)
		}
		if one.failure != "" {
			errors[one.failure]++
			continue
		}
		answered++
		took = max(took, one.ended)
	}
	for _, p := range r.processes {
		calls += int(p.calls.Calls)
	}
	requests, overtaken, efficiency := r.requests(), r.overtaken(), 0.0
	ideal, err := r.ideal()
	if answered == requests {
		efficiency = ideal.Seconds() / took.Seconds()
	}
	callsEach := float64(calls) / float64(requests)

	var missed []string
	miss := func(missing bool, format string, values ...any) {
		if missing {
			missed = append(missed, fmt.Sprintf(format, values...))
		}
	}
	miss(err != nil, "no ideal: %v", err)
	miss(answered < requests, "not answered: %d of %d requests", requests-answered, requests)
	for _, text := range slices.Sorted(maps.Keys(errors)) {
		miss(true, "%d ended with: %s", errors[text], text)
	}
	miss(r.inOrder && overtaken > 0, "overtaken from the second window on: %d, none wanted", overtaken)
	failed := len(missed) > 0
	miss(!failed && efficiency < r.certain, "%.4f of the ideal, at least %.2f wanted", efficiency, r.certain)
	miss(r.callsEach > 0 && callsEach > r.callsEach, "%.3f engine calls per request, at most %.2f wanted", callsEach, r.callsEach)
	miss(seen.Refused.Total() > 0, "429s: %d, none wanted", seen.Refused.Total())
	missed = append(missed, c.Missed(seen.Refused.Total(), efficiency)...)
	verdict := report.Judge("it reached its targets", missed...)
	switch {
	case interrupted:
		verdict = report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
	case len(missed) > 0 && !failed && r.stalled >= busy:
		line := fmt.Sprintf("this machine stalled, by %s once; run it again when it has less to do", report.Time(r.stalled))
		verdict = report.Verdict{Status: report.Stalled, Line: line, Reasons: missed}
	}
	times := load.Quantiles(queued)
	return &report.Report{Name: r.name, About: []string{r.about}, Verdict: verdict, Facts: []report.Fact{
		{Name: "answered", Key: "answered", Value: report.Count(answered).As(fmt.Sprintf("%d/%d", answered, requests)).Bad(answered < requests), Column: "answered"},
		{Name: "efficiency", Key: "efficiency", Value: report.Efficiency(efficiency, r.certain), Remark: "of the ideal",
			Column: "certain", Note: "efficiency against one ideal client that must be sure before it sends, and does the work of all"},
		{Name: "429s", Key: "refused", Value: report.ByClass(seen.Refused), Column: "429s"},
		{Name: "time taken", Key: "seconds", Value: report.Stated(took), Column: "time"},
		{Name: "overtaken", Key: "overtaken", Value: report.Count(overtaken), Column: "over-\ntaken",
			Note: "requests of one process that a later one of another process overtook, from a bucket's second window on"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(times.Median), Column: "queued\np50",
			Note: "time from handing a request to a process until it was sent: median, 99th percentile"},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(times.P99), Column: "\np99"},
		{Name: "calls per request", Key: "engine.calls_per_request", Value: report.Number(callsEach, 3, ""),
			Column: "calls per\nrequest", Note: "calls of the server for each request"},
		{Key: "engine.calls", Value: report.Count(calls)},
		{Key: "processes", Value: report.Count(len(r.works))},
		{Key: "requests", Value: report.Count(requests)},
		{Key: "errors", Value: report.Data(errors)},
		{Key: "avoidable", Value: report.ByClass(seen.Avoidable)},
		{Key: "simulator_behind_seconds", Value: report.Time(r.stalled)},
	}}
}

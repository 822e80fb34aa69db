package processes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// About says what is the same for all scenarios.
func (s Settings) About() []string {
	limits, together := "5 per second", "each"
	if s.Disturb {
		limits, together = "5 per second or per 5 s", "for all"
	}
	return []string{fmt.Sprintf("%d processes of this machine, limits of %s (fixed window), 10 to 40 ms each way; about %s %s; seed %d",
		s.Processes, limits, report.Setting(s.Length), together, s.Seed)}
}

// List describes scenarios that are not run.
func List(settings Settings) *report.Report {
	list := &report.Report{Title: "Scenarios"}
	for _, s := range Scenarios(settings) {
		requests := report.Count(s.Requests(settings))
		if s.Estimated() {
			requests = requests.As("about " + requests.String())
		}
		list.Parts = append(list.Parts, &report.Report{Name: s.Name, About: []string{s.About}, Facts: []report.Fact{
			{Name: "requests", Key: "requests", Value: requests, Column: "requests"},
			{Name: "what happens", Value: report.Text(s.About), Column: "what happens"},
			{Key: "requests_estimated", Value: report.Data(s.Estimated())},
			{Key: "targets", Value: report.List(s.Targets.List())},
		}})
	}
	return list
}

// Report describes what happened.
func (r *Result) Report(demand report.Demand, log *report.Log) *report.Report {
	s := r.Scenario
	described := &report.Report{
		Name: s.Name, Title: "Scenario " + s.Name, About: []string{s.About}, Verdict: r.verdict(demand), Facts: r.facts(), Log: log,
		Tables: []report.Table{r.perSecond(), r.accidents()},
	}
	if len(r.Seconds) > 0 {
		described.Charts = []report.Chart{r.timeline()}
	}
	if r.Stalled >= Busy {
		described.Notes = append(described.Notes, fmt.Sprintf("this machine was too busy: the simulated Discord was once %s behind, so do not trust these figures", report.Time(r.Stalled)))
	}
	return described
}

func (r *Result) verdict(demand report.Demand) report.Verdict {
	if r.Interrupted {
		return report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
	}
	reasons := append(slices.Clone(r.Missed), demand.Missed(r.Refused.Total(), r.Certain())...)
	if len(reasons) == 0 && r.Scenario.Targets.Anything {
		return report.Verdict{Status: report.NotJudged, Line: "this shows what the policy for outages costs, and nothing is judged"}
	}
	if short := r.NotJudged(); len(reasons) == 0 && len(short) > 0 {
		return report.Verdict{Status: report.NotJudged,
			Line: fmt.Sprintf("not judged, as that takes runs of %g s: %s", ShortestJudged.Seconds(), strings.Join(short, "; "))}
	}
	return report.Judge("it reached its targets", reasons...)
}

func (r *Result) facts() []report.Fact {
	all, late := r.CallsEach()
	inverted := report.Value{}
	if r.Pairs > 0 {
		inverted = report.Share(r.InvertedPart()).Bad(r.Inverted > 0 && r.Scenario.Targets.InOrder)
	}
	facts := []report.Fact{
		{Name: "answered", Value: report.Text(fmt.Sprintf("%d/%d", r.Answered, r.Requests)).Bad(r.Unanswered() > 0), Column: "answered", Main: true},
		{Name: "efficiency", Key: "efficiency", Value: report.Efficiency(r.Certain(), r.Scenario.Targets.Certain), Remark: "of the certain ideal", Main: true,
			Column: "certain", Note: "efficiency against one ideal client that must be sure before it sends, and does the work of all"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.Refused), Column: "429s", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.Took), Remark: "by " + report.Counted(r.Processes, "process"), Column: "time", Main: true},
		{Name: "inverted pairs", Value: inverted, Remark: fmt.Sprintf("%d of %d", r.Inverted, r.Pairs), Main: true, Column: "inverted\npairs",
			Note: "of pairs of requests that two processes made one after the other: how many changed places, from a bucket's second window on"},
	}
	if r.Shared {
		facts = append(facts,
			report.Fact{Name: "calls per request", Key: "engine.calls_per_request", Value: report.Number(all, 3, ""), Main: true,
				Column: "calls per request\nin all", Note: "scripts that the engine ran for each request, in all and in the second half; and its own time for each request"},
			report.Fact{Name: "calls, second half", Key: "engine.calls_per_request_second_half", Value: report.Number(late, 3, ""), Column: "\n2nd half"},
			report.Fact{Name: "engine time each", Value: report.Time(r.EngineEach()), Column: "engine\ntime each"},
			report.Fact{Key: "engine.calls", Value: report.Count(r.Calls.Calls)},
			report.Fact{Key: "engine.seconds", Value: report.Time(r.Calls.Took)})
	} else {
		facts = append(facts, report.Fact{Key: "engine"})
	}
	return append(facts,
		report.Fact{Name: "queued, mean", Key: "queued_mean_seconds", Value: report.Time(r.MeanWait), Column: "queued\nmean",
			Note: "time from handing a request to a client until it was sent: mean, that of the ideal client, median, 99th percentile"},
		report.Fact{Name: "ideal's mean", Key: "ideal_queued_mean_seconds", Value: report.Stated(r.Ideal.MeanWait), Column: "\nideal"},
		report.Fact{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.Queued.Median), Column: "\np50", Main: true},
		report.Fact{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(r.Queued.P90)},
		report.Fact{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.Queued.P99), Column: "\np99"},
		report.Fact{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.Queued.Max)},
		report.Fact{Name: "certain ideal", Key: "ideal_seconds", Value: report.Stated(r.Ideal.Took)},
		report.Fact{Name: "targets", Key: "targets", Value: report.List(r.Scenario.Targets.List())},
		report.Fact{Key: "processes", Value: report.Count(r.Processes)},
		report.Fact{Key: "requests", Value: report.Count(r.Requests)},
		report.Fact{Key: "answered", Value: report.Count(r.Answered)},
		report.Fact{Key: "errors", Value: report.Data(r.Errors)},
		report.Fact{Key: "avoidable", Value: report.ByClass(r.Avoidable)},
		report.Fact{Key: "excused", Value: report.ByClass(r.Excused)},
		report.Fact{Key: "pairs", Value: report.Count(r.Pairs)},
		report.Fact{Key: "inverted", Value: report.Count(r.Inverted)},
		report.Fact{Key: "simulator_behind_seconds", Value: report.Time(r.Stalled)},
		report.Fact{Key: "not_judged", Value: report.List(r.NotJudged())},
	)
}

func (r *Result) perSecond() report.Table {
	t := report.Table{Key: "per_second", Columns: []report.Column{{Key: "served"}, {Key: "refused"}, {Key: "errors"}, {Key: "engine_calls"}}}
	for _, s := range r.Seconds {
		calls := report.Value{}
		if r.Shared {
			calls = report.Number(s.Calls, 1, "")
		}
		t.Rows = append(t.Rows, []report.Value{report.Count(s.Served), report.Count(s.Refused), report.Count(s.Errors), calls})
	}
	return t
}

// accidents are what each of them cost.
func (r *Result) accidents() report.Table {
	t := report.Table{Title: "accidents", Key: "accidents", Columns: []report.Column{
		{Name: "accident", Key: "accident", Left: true}, {Name: "from", Key: "from"}, {Name: "to", Key: "to"},
		{Name: "rate\nbefore", Key: "rate_before", Note: "requests that came through per second in the 5 or 6 s before it"},
		{Name: "requests\nlost", Key: "requests_lost", Note: "how many fewer came through until the next accident than were made, or than at that rate where callers wait for answers"},
		{Name: "rate\nback after", Key: "back_after", Note: "time from its end until the rate was back"},
		{Name: "each bucket\nserved after", Key: "served_after", Note: "the longest that requests waited after it until their bucket served one again"},
		{Name: "429s", Key: "refused", Note: "in all until the next accident; those that a client would have avoided that knew all; in how many buckets"},
		{Name: "avoidable", Key: "avoidable"}, {Name: "in\nbuckets", Key: "refused_buckets"}, {Name: "errors", Key: "errors"},
		{Name: "verdict", Key: "verdict", Left: true},
		{Name: "requests in each second", Key: "per_second", Left: true, Note: "from 2 s before; │ marks where it begins, and ends if it lasts"},
	}}
	for _, a := range r.Accidents {
		verdict := report.Judge("", a.Missed...)
		if r.Interrupted || r.Scenario.Targets.Anything {
			verdict.Status = report.NotJudged
		}
		t.Rows = append(t.Rows, []report.Value{
			report.Text(a.Name), report.Setting(a.At), report.Setting(a.Until), report.Number(a.Before, 1, "/s"), report.Number(a.Lost, 0, ""),
			orNever(a.Back), orNever(a.Served), report.Count(a.Refused), report.Count(a.Avoidable), report.Count(a.RefusedBuckets), report.Count(a.Errors),
			verdict.Value(), report.Data(a.Seconds).As(a.inSeconds()),
		})
	}
	return t
}

func orNever(d time.Duration) report.Value {
	if d < 0 {
		return report.Data(nil).As("never")
	}
	return report.Time(d)
}

func (a *Accident) inSeconds() string {
	begins := Around
	ends := begins + int((a.Until-a.At)/time.Second)
	var b strings.Builder
	for i, n := range a.Seconds {
		if i == begins || i == ends && ends > begins {
			b.WriteString("│ ")
		}
		fmt.Fprintf(&b, "%d ", n)
	}
	return strings.TrimSpace(b.String())
}

// timeline is what happened in each second, with the accidents.
func (r *Result) timeline() report.Chart {
	line := func(name string, value func(Second) float64) report.Series {
		s := report.Series{Name: name, Step: true}
		for i, second := range r.Seconds {
			s.Points = append(s.Points, report.Point{X: float64(i), Y: value(second)})
		}
		return s
	}
	chart := report.Chart{Title: "In each second", X: report.Axis{Label: "time since the start", Unit: "s"}, Y: report.Axis{Label: "a second"}, Run: true}
	chart.Series = []report.Series{line("requests", func(s Second) float64 { return float64(s.Served) })}
	if r.Shared {
		chart.Series = append(chart.Series, line("engine calls", func(s Second) float64 { return s.Calls }))
	}
	for _, s := range []report.Series{
		line("429s", func(s Second) float64 { return float64(s.Refused) }), line("errors", func(s Second) float64 { return float64(s.Errors) }),
	} {
		if slices.ContainsFunc(s.Points, func(p report.Point) bool { return p.Y > 0 && !math.IsNaN(p.Y) }) {
			chart.Series = append(chart.Series, s)
		}
	}
	for i, a := range r.Accidents {
		chart.Events = append(chart.Events, report.Event{From: a.At.Seconds(), To: a.Until.Seconds(), Name: fmt.Sprintf("%d: %s", i+1, a.Name)})
	}
	return chart
}

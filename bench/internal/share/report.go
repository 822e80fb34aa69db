package share

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// about says what is the same for all scenarios.
func (o Options) about() []string {
	limits, together := "5 per second", "each"
	if o.Disturb {
		limits, together = "5 per second or per 5 s", "for all"
	}
	return []string{fmt.Sprintf("%s of this machine, limits of %s (fixed window), 10 to 40 ms each way; about %s %s; seed %d",
		processes(o.Processes), limits, report.Setting(o.Length), together, o.Seed)}
}

func processes(n int) string {
	return strings.Replace(report.Counted(n, "process"), "processs", "processes", 1)
}

// List describes scenarios that are not run.
func List(o Options) *report.Report {
	list := &report.Report{Title: "Scenarios"}
	for _, s := range o.all() {
		requests := report.Count(s.Requests(o.Length))
		if s.accidents != nil {
			requests = requests.As("about " + requests.String())
		}
		list.Parts = append(list.Parts, &report.Report{Name: s.Name, About: []string{s.About}, Facts: []report.Fact{
			{Name: "requests", Key: "requests", Value: requests, Column: "requests"},
			{Name: "what happens", Value: report.Text(s.About), Column: "what happens"},
			{Key: "requests_estimated", Value: report.Data(s.accidents != nil)},
			{Key: "targets", Value: report.List(s.targets.list())},
		}})
	}
	return list
}

// report describes what happened.
func (r *result) report(demand report.Demand) *report.Report {
	described := &report.Report{
		Name: r.Name, Title: "Scenario " + r.Name, About: []string{r.About}, Verdict: r.verdict(demand), Facts: r.facts(), Log: r.log,
		Tables: []report.Table{r.perSecond(), r.accidentTable()},
	}
	if r.stalled >= busy && described.Verdict.Status != report.Stalled {
		described.Notes = []string{r.stall()}
	}
	if len(r.seconds) > 0 {
		described.Charts = []report.Chart{r.timeline()}
	}
	return described
}

func (r *result) stall() string {
	return fmt.Sprintf("this machine stalled, by %v once; run it again when it has less to do", report.Time(r.stalled))
}

func (r *result) verdict(demand report.Demand) report.Verdict {
	reasons := append(slices.Clone(r.missed), demand.Missed(r.refused.Total(), r.efficiency())...)
	short := r.notJudged()
	switch {
	case r.interrupted:
		return report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
	case len(reasons) > 0 && r.stalled >= busy && r.answered == r.requests: // an answer that is missing is no question of time
		return report.Verdict{Status: report.Stalled, Reasons: reasons, Line: r.stall()}
	case len(reasons) == 0 && r.targets.anything:
		return report.Verdict{Status: report.NotJudged, Line: "this shows what the policy for outages costs, and nothing is judged"}
	case len(reasons) == 0 && len(short) > 0:
		return report.Verdict{Status: report.NotJudged,
			Line: fmt.Sprintf("it takes runs of %v to judge: %s", report.Setting(shortestJudged), strings.Join(short, "; "))}
	}
	return report.Judge("it reached its targets", reasons...)
}

func (r *result) facts() []report.Fact {
	inverted := report.Value{}
	if r.pairs > 0 {
		inverted = report.Share(part(r.inverted, r.pairs)).Bad(r.inverted > 0 && r.targets.inOrder)
	}
	facts := []report.Fact{
		{Name: "answered", Value: report.Text(fmt.Sprintf("%d/%d", r.answered, r.requests)).Bad(r.answered < r.requests), Column: "answered", Main: true},
		{Name: "efficiency", Key: "efficiency", Value: report.Efficiency(r.efficiency(), r.targets.certain), Remark: "of the certain ideal", Main: true,
			Column: "certain", Note: "efficiency against one ideal client that must be sure before it sends, and does the work of all"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.refused), Column: "429s", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.took), Remark: "by " + processes(len(r.works)), Column: "time", Main: true},
		{Name: "inverted pairs", Value: inverted, Remark: fmt.Sprintf("%d of %d", r.inverted, r.pairs), Main: true, Column: "inverted\npairs",
			Note: "of pairs of requests that two processes made one after the other: how many changed places, from a bucket's second window on"},
		{Name: "queued, mean", Key: "queued_mean_seconds", Value: report.Time(r.meanWait), Column: "queued\nmean",
			Note: "time from handing a request to a client until it was sent: mean, that of the ideal client, median, 99th percentile"},
		{Name: "ideal's mean", Key: "ideal_queued_mean_seconds", Value: report.Stated(r.ideal.meanWait), Column: "\nideal"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.queued.Median), Column: "\np50", Main: true},
		{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(r.queued.P90)},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.queued.P99), Column: "\np99"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.queued.Max)},
		{Name: "certain ideal", Key: "ideal_seconds", Value: report.Stated(r.ideal.took)},
		{Name: "targets", Key: "targets", Value: report.List(r.targets.list())},
	}
	if r.effort.calls == 0 {
		facts = append(facts, report.Fact{Key: "engine"}) // null
	} else {
		facts = append(facts, report.Fact{
			Name: "calls per request", Key: "engine.calls_per_request", Value: report.Number(r.callsEach(), 3, ""), Main: true,
			Column: "calls per\nrequest", Note: "scripts that the engine ran for each request",
		}, report.Fact{Name: "calls", Key: "engine.calls", Value: report.Count(r.effort.calls)},
			report.Fact{Name: "their time", Key: "engine.seconds", Value: report.Time(r.effort.took), Remark: "of the engine"})
	}
	for _, fact := range []struct {
		key   string
		value report.Value
	}{
		{"processes", report.Count(len(r.works))},
		{"requests", report.Count(r.requests)}, {"answered", report.Count(r.answered)}, {"errors", report.Data(r.errors)},
		{"avoidable", report.ByClass(r.avoidable)}, {"excused", report.ByClass(r.excused)}, {"pairs", report.Count(r.pairs)},
		{"inverted", report.Count(r.inverted)}, {"simulator_behind_seconds", report.Time(r.stalled)}, {"not_judged", report.List(r.notJudged())},
	} {
		facts = append(facts, report.Fact{Key: fact.key, Value: fact.value})
	}
	return facts
}

func (r *result) perSecond() report.Table {
	t := report.Table{Key: "per_second", Columns: []report.Column{{Key: "served"}, {Key: "refused"}, {Key: "errors"}}}
	for _, s := range r.seconds {
		t.Rows = append(t.Rows, []report.Value{report.Count(s.served), report.Count(s.refused), report.Count(s.errors)})
	}
	return t
}

// accidentTable is what each of them cost.
func (r *result) accidentTable() report.Table {
	t := report.Table{Title: "accidents", Key: "accidents", Columns: []report.Column{
		{Name: "accident", Key: "accident", Left: true}, {Name: "from", Key: "from"}, {Name: "to", Key: "to"},
		{Name: "rate\nbefore", Key: "rate_before", Note: "requests that came through per second in the 5 or 6 s before it"},
		{Name: "requests\nlost", Key: "requests_lost", Note: "how many fewer came through until the next accident than were made, or than at that rate"},
		{Name: "rate\nback after", Key: "back_after", Note: "time from its end until the rate was back"},
		{Name: "each bucket\nserved after", Key: "served_after", Note: "the longest that requests waited after it until their bucket served one again"},
		{Name: "429s", Key: "refused", Note: "in all until the next accident; those that a client would have avoided that knew all; in how many buckets"},
		{Name: "avoidable", Key: "avoidable"}, {Name: "in\nbuckets", Key: "refused_buckets"}, {Name: "errors", Key: "errors"},
		{Name: "verdict", Key: "verdict", Left: true},
	}}
	for _, c := range r.costs {
		back, verdict := orNever(c.back), report.Judge("", c.missed(r.targets)...)
		if r.targets.backWithin == 0 && !r.targets.anything {
			back = report.Value{} // it comes and goes with windows that long
		}
		if r.interrupted || r.targets.anything {
			verdict = report.Verdict{Status: report.NotJudged}
		}
		t.Rows = append(t.Rows, []report.Value{
			report.Text(c.name), report.Setting(c.at), report.Setting(c.until), report.Number(c.before, 1, "/s"), report.Number(c.lost, 0, ""),
			back, orNever(c.served), report.Count(c.refused), report.Count(c.avoidable), report.Count(c.buckets), report.Count(c.errors), verdict.Value(),
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

// timeline is what happened in each second, with the accidents.
func (r *result) timeline() report.Chart {
	chart := report.Chart{Title: "In each second", Summary: "What became of requests, and the accidents.", Run: true}
	chart.X, chart.Y = report.Axis{Label: "time since the start", Unit: "s"}, report.Axis{Label: "a second"}
	lines := []report.Series{{Name: "requests", Step: true}, {Name: "429s", Step: true}, {Name: "errors", Step: true}}
	for i, s := range r.seconds {
		for j, n := range []int{s.served, s.refused, s.errors} {
			lines[j].Points = append(lines[j].Points, report.Point{X: float64(i), Y: float64(n)})
		}
	}
	chart.Series = slices.DeleteFunc(lines, func(s report.Series) bool {
		return !slices.ContainsFunc(s.Points, func(p report.Point) bool { return p.Y > 0 })
	})
	for i, c := range r.costs {
		chart.Events = append(chart.Events, report.Event{From: c.at.Seconds(), To: c.until.Seconds(), Name: fmt.Sprintf("%d: %s", i+1, c.name)})
	}
	return chart
}

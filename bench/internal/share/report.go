package share

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// about describes what all scenarios have in common.
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

// List describes the scenarios without running them.
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

// report returns the result as a report.
func (r *result) report(demand report.Demand) *report.Report {
	perSecond, timeline := r.perSecond()
	described := &report.Report{
		Name: r.Name, Title: "Scenario " + r.Name, About: []string{r.About}, Verdict: r.verdict(demand), Facts: r.facts(), Log: r.log,
		Tables: []report.Table{perSecond, r.accidentTable()},
	}
	if r.stalled >= busy && described.Verdict.Status != report.Stalled {
		described.Notes = []string{r.stall()}
	}
	if len(r.seconds) > 0 {
		described.Charts = []report.Chart{timeline}
	}
	return described
}

func (r *result) facts() []report.Fact {
	inverted := report.Count(r.inverted).As("–")
	if r.pairs > 0 {
		inverted = inverted.As(report.Share(part(r.inverted, r.pairs)).String()).Bad(r.inverted > 0 && r.targets.inOrder)
	}
	facts := []report.Fact{
		{Name: "answered", Key: "answered", Value: report.Count(r.answered).As(fmt.Sprintf("%d/%d", r.answered, r.requests)).Bad(r.answered < r.requests),
			Column: "answered", Main: true},
		{Name: "efficiency", Key: "efficiency", Value: report.Efficiency(r.efficiency(), r.targets.certain), Remark: "of the certain ideal", Main: true,
			Column: "certain", Note: "efficiency against one ideal client that must be sure before it sends, and does the work of all"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.refused), Column: "429s", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.took), Remark: "by " + processes(len(r.works)), Column: "time", Main: true},
		{Name: "inverted pairs", Key: "inverted", Value: inverted, Remark: fmt.Sprintf("%d of %d", r.inverted, r.pairs), Main: true,
			Column: "inverted\npairs",
			Note:   "of pairs of requests that two processes made one after the other: how many changed places, from a bucket's second window on"},
		{Name: "queued, mean", Key: "queued_mean_seconds", Value: report.Time(r.meanWait), Column: "queued\nmean",
			Note: "time from handing a request to a client until it was sent: mean, that of the ideal client, median, 99th percentile"},
		{Name: "ideal's mean", Key: "ideal_queued_mean_seconds", Value: report.Stated(r.ideal.MeanWait), Column: "\nideal"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.queued.Median), Column: "\np50", Main: true},
		{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(r.queued.P90)},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.queued.P99), Column: "\np99"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.queued.Max)},
		{Name: "certain ideal", Key: "ideal_seconds", Value: report.Stated(r.ideal.Makespan)},
		{Name: "targets", Key: "targets", Value: report.List(r.targets.list())},
		{Key: "processes", Value: report.Count(len(r.works))},
		{Key: "requests", Value: report.Count(r.requests)},
		{Key: "errors", Value: report.Data(r.errors)},
		{Key: "avoidable", Value: report.ByClass(r.avoidable)},
		{Key: "excused", Value: report.ByClass(r.excused)},
		{Key: "pairs", Value: report.Count(r.pairs)},
		{Key: "simulator_behind_seconds", Value: report.Time(r.stalled)},
		{Key: "not_judged", Value: report.List(r.notJudged())},
	}
	if r.calls.Calls == 0 {
		return append(facts, report.Fact{Key: "engine"}) // null
	}
	return append(facts,
		report.Fact{Name: "calls per request", Key: "engine.calls_per_request", Value: report.Number(r.callsEach(), 3, ""), Main: true,
			Column: "calls per\nrequest", Note: "calls of the engine for each request"},
		report.Fact{Name: "calls", Key: "engine.calls", Value: report.Count(int(r.calls.Calls))},
		report.Fact{Name: "their time", Key: "engine.seconds", Value: report.Time(r.calls.Time), Remark: "until the processes had the replies"})
}

// perSecond returns a table of accepted requests, 429s and failures in each second, and a chart with the accidents.
func (r *result) perSecond() (report.Table, report.Chart) {
	table := report.Table{Key: "per_second", Columns: []report.Column{{Key: "served"}, {Key: "refused"}, {Key: "errors"}}}
	lines := []report.Series{{Name: "requests", Step: true}, {Name: "429s", Step: true}, {Name: "errors", Step: true}}
	for i, second := range r.seconds {
		var row []report.Value
		for j, n := range second {
			row = append(row, report.Count(n))
			lines[j].Points = append(lines[j].Points, report.Point{X: float64(i), Y: float64(n)})
		}
		table.Rows = append(table.Rows, row)
	}
	chart := report.Chart{Title: "In each second", Run: true}
	chart.X, chart.Y = report.Axis{Label: "time since the start", Unit: "s"}, report.Axis{Label: "a second"}
	chart.Series = slices.DeleteFunc(lines, func(s report.Series) bool {
		return !slices.ContainsFunc(s.Points, func(p report.Point) bool { return p.Y > 0 })
	})
	for i, c := range r.costs {
		chart.Events = append(chart.Events, report.Event{From: c.at.Seconds(), To: c.until.Seconds(), Name: fmt.Sprintf("%d: %s", i+1, c.name)})
	}
	return table, chart
}

// accidentTable returns a table with the cost of each accident.
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
			back = report.Value{} // with such long windows the rate varies anyway
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

// orNever returns a time, or "never" if it is negative.
func orNever(d time.Duration) report.Value {
	if d < 0 {
		return report.Data(nil).As("never")
	}
	return report.Time(d)
}

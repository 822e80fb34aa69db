package load

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Report describes what was measured. It contains neither the token nor the parameters of the path.
func (r *Result) Report(c Config, demand report.Demand) *report.Report {
	requests, target, title := report.Counted(c.Requests, "request"), "simulator", report.Counted(c.Simulated.Channels, "simulated channel")
	if c.Real != nil {
		target, title = c.Real.Target.String(), c.Real.Target.Host
	}
	described := &report.Report{Title: requests + " to " + title, About: c.about(), Verdict: r.verdict(c, demand), Log: r.Log, Facts: r.facts(Targets{})}
	described.Facts = append(described.Facts,
		report.Fact{Key: "target", Value: report.Text(target)},
		report.Fact{Key: "statuses", Value: report.Data(r.Statuses)},
		report.Fact{Key: "refused_early", Value: report.Count(r.RefusedEarly)},
		report.Fact{Key: "given_up", Value: report.Count(r.GivenUp())})
	if !r.Judged {
		described.Notes = append(described.Notes, "Only the simulator can tell which 429s could have been avoided.")
	}
	return described
}

// about says what was asked for.
func (c *Config) about() []string {
	atOnce := "at once"
	if c.Concurrency > 0 {
		atOnce = fmt.Sprintf("%d at a time", c.Concurrency)
	}
	requests, longest := report.Counted(c.Requests, "request"), report.Setting(c.MaxRateLimit)
	if c.Real != nil {
		return []string{
			fmt.Sprintf("%s, %s, to %s on %s", requests, atOnce, c.Real.route(), c.Real.Target),
			fmt.Sprintf("%s; max rate limit %s", globalText(c.GlobalLimit), longest),
		}
	}
	s := c.Simulated
	return []string{
		fmt.Sprintf("%s, %s, to %s of a simulated Discord on this machine", requests, atOnce, report.Counted(s.Channels, "channel")),
		LimitsText(s.Quota, "channel", c.GlobalLimit),
		fmt.Sprintf("%s; max rate limit %s; seed %d", LatencyText(s.Latency), longest, s.Seed),
	}
}

// LimitsText says how a simulated Discord limits.
func LimitsText(quota discordsim.Quota, each string, globalLimit int) string {
	how := map[discordsim.Kind]string{
		discordsim.KindFixed: "fixed window", discordsim.KindSliding: "sliding window", discordsim.KindLeaky: "leaky bucket",
	}[quota.Kind]
	return fmt.Sprintf("%d per %s in each %s (%s); %s", quota.Limit, report.Setting(quota.Period), each, how, globalText(globalLimit))
}

func globalText(limit int) string {
	if limit == 0 {
		return "no global limit"
	}
	return fmt.Sprintf("at most %d per second in all", limit)
}

// LatencyText says how far away it is.
func LatencyText(l discordsim.Latency) string {
	return fmt.Sprintf("round trip %s ± %s", report.Setting(l.RoundTrip), report.Setting(l.Jitter))
}

func (r *Real) route() string {
	compiled, err := routes.Match("GET", r.Path)
	if err != nil {
		return "GET"
	}
	return compiled.Route().String()
}

// facts are what loads and scenarios have in common.
func (r *Result) facts(targets Targets) []report.Fact {
	answered := report.Count(r.Answered).As(fmt.Sprintf("%d/%d", r.Answered, r.Requests)).Bad(r.Failed()+r.rejected() > 0)
	until := "until the last request had an outcome"
	if r.Answered == r.Requests {
		until = "until the last answer"
	}
	facts := []report.Fact{
		{Name: "answered", Key: "answered", Value: answered, Remark: r.statuses(), Column: "answered", Main: true},
		{Name: "time taken", Key: "seconds", Value: report.Stated(r.Took), Remark: until, Column: "time", Main: true},
		{Name: "efficiency", Key: "efficiency.certain", Value: report.Efficiency(r.Certain(), targets.Certain), Main: true,
			Remark: cmp.Or(r.Ideal.Missing, "of the certain ideal"),
			Column: "certain", Note: "efficiency against the ideal client that must be sure before it sends"},
		{Key: "efficiency.omniscient", Value: report.Efficiency(r.Omniscient(), targets.Omniscient),
			Column: "omnisc.", Note: "efficiency against the client that sees into the server"},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.Refused), Column: "429s", Main: true},
		{Key: "avoidable"},
	}
	if r.Judged {
		facts[len(facts)-1] = report.Fact{Name: "avoidable 429s", Key: "avoidable", Value: report.ByClass(r.Avoidable).Bad(r.Avoidable.Total() > 0),
			Column: "avoid-\nable", Main: true}
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

// times are how long requests waited, what the ideals are, and how busy the machine was.
func (r *Result) times() []report.Fact {
	facts := []report.Fact{
		{Name: "in flight, most", Key: "largest_in_flight", Value: report.Count(r.LargestInFlight), Remark: "requests under way at once",
			Column: "in\nflight", Note: "most requests under way at once"},
		{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.Queued.Median), Main: true,
			Remark: "held back by the client before each sending, round trips not counted",
			Column: "queued\np50", Note: "time from handing a request to the client until it was sent: median"},
		{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(r.Queued.P90), Remark: "so many were not held back longer"},
		{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(r.Queued.P99),
			Column: "\np99", Note: "the 99th percentile of that"},
		{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(r.Queued.Max)},
	}
	if r.Ideal.Missing == "" {
		facts = append(facts,
			report.Fact{Name: "certain ideal", Value: report.Stated(r.Ideal.Certain), Remark: "time of a client that must be sure before it sends"},
			report.Fact{Name: "omniscient ideal", Value: report.Stated(r.Ideal.Omniscient),
				Remark: fmt.Sprintf("time of a client that sees into the server; efficiency %s against it", report.Efficiency(r.Omniscient(), 0))})
	}
	return append(facts,
		report.Fact{Name: "machine stalled", Key: "stalled_seconds.longest", Value: report.Time(r.Stalls.Longest).Bad(r.Stalls.Disturbed()),
			Remark: fmt.Sprintf("at once, at most; %s in all, by which timers came late", report.Time(r.Stalls.Total)),
			Column: "machine\nstalled", Note: "by how much a timer or an answer of the simulated Discord came late, at most"},
		report.Fact{Key: "stalled_seconds.total", Value: report.Time(r.Stalls.Total)},
		report.Fact{Key: "ideal_seconds.certain", Value: report.Stated(r.Ideal.Certain)},
		report.Fact{Key: "ideal_seconds.omniscient", Value: report.Stated(r.Ideal.Omniscient)},
		report.Fact{Key: "requests", Value: report.Count(r.Requests)},
		report.Fact{Key: "errors", Value: report.Data(r.Errors)},
		report.Fact{Key: "excused", Value: report.ByClass(r.Excused)},
	)
}

func (r *Result) statuses() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d with status %d", r.Statuses[status], status))
	}
	return strings.Join(parts, ", ")
}

// verdict wants no request to fail, and one at least to succeed.
func (r *Result) verdict(c Config, demand report.Demand) report.Verdict {
	all := report.Counted(r.Requests, "request")
	line := fmt.Sprintf("%d of %s answered", r.Answered, all)
	if r.Interrupted {
		return report.Verdict{Status: report.Interrupted, Line: line}
	}
	var reasons []string
	switch n := r.Failed(); {
	case n > 0:
		reasons = append(reasons, fmt.Sprintf("%d of %s failed", n, all))
	case r.Answered == 0:
		reasons = append(reasons, "no request was answered")
	case r.rejected() == r.Answered:
		reasons = append(reasons, "every answer was an error: "+r.statuses())
	}
	failed := len(reasons) > 0
	reasons = append(reasons, demand.Missed(r.Refused.Total(), r.Certain())...)
	if n := r.rejected(); n > 0 {
		line += fmt.Sprintf(", %d of them with an error", n)
	}
	if r.RefusedEarly > 0 {
		line += fmt.Sprintf(", %d refused at once, as they would have waited longer than %s", r.RefusedEarly, report.Setting(c.MaxRateLimit))
	}
	switch n := r.Avoidable.Total(); {
	case !r.Judged:
		line += fmt.Sprintf(", 429s: %d", r.Refused.Total())
	case n == 0:
		line += ", no avoidable 429"
	default:
		line += ", " + report.Counted(n, "avoidable 429")
	}
	if r.Certain() > 0 {
		line += fmt.Sprintf(", %.3f of the certain ideal", r.Certain())
	}
	return r.judged(line, failed, Targets{Certain: demand.MinEfficiency}, reasons)
}

// judged fails a run for a reason, unless all that was missed are times, by no more than this machine took away.
func (r *Result) judged(line string, failed bool, least Targets, reasons []string) report.Verdict {
	lost := r.Stalls.Longest + r.Stalls.Total
	late := func(ideal time.Duration, least float64) bool {
		return least > 0 && r.Took-time.Duration(float64(ideal)/least) > lost
	}
	failed = failed || late(r.Ideal.Certain, least.Certain) || late(r.Ideal.Omniscient, least.Omniscient) ||
		least.P99 > 0 && r.Queued.P99-least.P99 > lost
	if len(reasons) > 0 && !failed && r.Stalls.Disturbed() {
		return report.Verdict{Status: report.Stalled, Line: r.Stalls.String(), Reasons: reasons}
	}
	return report.Judge(line, reasons...)
}

// Report describes what happened.
func (r *Judged) Report(demand report.Demand) *report.Report {
	const overtaken = "requests that reached the server after a later one of their bucket"
	s := r.Scenario
	described := &report.Report{Name: s.Name, Title: "Scenario " + s.Name, About: []string{s.About}, Log: r.Log, Facts: append(r.facts(s.Targets),
		report.Fact{Name: "overtaken", Key: "overtaken", Value: report.Count(r.Inversions), Remark: overtaken,
			Column: "over-\ntaken", Note: overtaken + "; only the scenario ordered promises none"},
		report.Fact{Name: "targets", Key: "targets", Value: report.List(s.Targets.List())},
		report.Fact{Name: "ideal by", Key: "ideal_by", Value: report.Text(s.IdealBy)})}
	if r.Interrupted {
		described.Verdict = report.Verdict{Status: report.Interrupted, Line: "it was cut off and is not judged"}
		return described
	}
	reasons := slices.Concat(r.Missed, demand.Missed(r.Refused.Total(), r.Certain()))
	least := s.Targets
	least.Certain = max(least.Certain, demand.MinEfficiency)
	described.Verdict = r.judged("it reached its targets", r.Answered < r.Requests, least, reasons)
	return described
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

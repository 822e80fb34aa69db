package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Report describes what was measured. It contains neither the token nor the parameters of the path.
func (r *Result) Report(c Config, demand report.Demand, log *report.Log) *report.Report {
	target, title := "simulator", fmt.Sprintf("%s to %s", report.Counted(c.Requests, "request"), report.Counted(c.Simulated.Channels, "simulated channel"))
	if c.Real != nil {
		target, title = c.Real.Target.String(), fmt.Sprintf("%s to %s", report.Counted(c.Requests, "request"), c.Real.Target.Host)
	}
	described := &report.Report{
		Title: title, About: c.about(), Verdict: r.verdict(c, demand), Log: log,
		Facts: append(r.facts(), report.Fact{Key: "target", Value: report.Text(target)}),
	}
	if !r.Judged {
		described.Notes = append(described.Notes, "Only the simulator can tell which 429s could have been avoided.")
	}
	return described
}

// about says what was asked for.
func (c *Config) about() []string {
	atOnce, global := "at once", "no global limit"
	if c.Concurrency > 0 {
		atOnce = fmt.Sprintf("%d at a time", c.Concurrency)
	}
	if c.GlobalLimit > 0 {
		global = fmt.Sprintf("at most %d per second in all", c.GlobalLimit)
	}
	requests := report.Counted(c.Requests, "request")
	if c.Real != nil {
		return []string{
			fmt.Sprintf("%s, %s, to %s on %s", requests, atOnce, c.Real.route(), c.Real.Target),
			fmt.Sprintf("%s; max rate limit %s", global, report.Setting(c.MaxRateLimit)),
		}
	}
	s := c.Simulated
	how := map[discordsim.Kind]string{
		discordsim.KindFixed: "fixed window", discordsim.KindSliding: "sliding window", discordsim.KindLeaky: "leaky bucket",
	}[s.Quota.Kind]
	return []string{
		fmt.Sprintf("%s, %s, to %s of a simulated Discord on this machine", requests, atOnce, report.Counted(s.Channels, "channel")),
		fmt.Sprintf("%d per %s in each channel (%s); %s", s.Quota.Limit, report.Setting(s.Quota.Period), how, global),
		fmt.Sprintf("round trip %s ± %s; max rate limit %s; seed %d",
			report.Setting(s.Latency.RoundTrip), report.Setting(s.Latency.Jitter), report.Setting(c.MaxRateLimit), s.Seed),
	}
}

func (r *Real) route() string {
	compiled, err := routes.Match("GET", r.Path)
	if err != nil {
		return "GET"
	}
	return compiled.Route().String()
}

func (r *Result) facts() []report.Fact {
	requests, took := "of "+report.Counted(r.Requests, "request"), report.Stated(r.Took)
	efficiency, queued := "of the certain ideal", r.Reading.Queued
	if r.Ideal.Missing != "" {
		efficiency = r.Ideal.Missing
	}
	facts := []report.Fact{
		{Name: "answered", Key: "answered", Value: report.Count(r.Answered).Bad(r.Failed() > 0 || r.rejected() > 0), Remark: requests + r.statuses(), Main: true},
		{Name: "efficiency", Key: "efficiency.certain", Value: report.Efficiency(r.Certain(), 0), Remark: efficiency, Main: true},
		{Name: "429s", Key: "refused", Value: report.ByClass(r.Refused), Main: true},
		{Name: "time taken", Key: "seconds", Value: took, Remark: "until the last answer", Main: true},
	}
	avoidable := report.Fact{Key: "avoidable"}
	if r.Judged {
		avoidable = report.Fact{Name: "avoidable 429s", Key: "avoidable", Value: report.ByClass(r.Avoidable).Bad(r.Avoidable.Total() > 0), Main: true}
	}
	facts = append(facts, avoidable)
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
	if r.Ideal.Missing == "" {
		facts = append(facts,
			report.Fact{Name: "certain ideal", Value: report.Time(r.Ideal.Certain), Remark: "of a client that must be sure before it sends"},
			report.Fact{Name: "omniscient ideal", Value: report.Time(r.Ideal.Omniscient),
				Remark: fmt.Sprintf("of a client that sees into the server; efficiency %s against it", report.Efficiency(r.Omniscient(), 0))})
	}
	return append(facts,
		report.Fact{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(queued.Median), Main: true,
			Remark: "held back by the client before each sending, round trips not counted"},
		report.Fact{Name: "queued, 90 %", Key: "queued_seconds.p90", Value: report.Time(queued.P90), Remark: "so many were not held back longer"},
		report.Fact{Name: "queued, 99 %", Key: "queued_seconds.p99", Value: report.Time(queued.P99)},
		report.Fact{Name: "queued, longest", Key: "queued_seconds.max", Value: report.Time(queued.Max)},
		report.Fact{Name: "in flight, most", Key: "largest_in_flight", Value: report.Count(r.Reading.LargestInFlight), Remark: "requests under way at once"},
		report.Fact{Key: "requests", Value: report.Count(r.Requests)},
		report.Fact{Key: "refused_early", Value: report.Count(r.RefusedEarly)},
		report.Fact{Key: "given_up", Value: report.Count(r.GivenUp())},
		report.Fact{Key: "statuses", Value: report.Data(r.Statuses)},
		report.Fact{Key: "errors", Value: report.Data(r.Errors)},
		report.Fact{Key: "ideal_seconds.certain", Value: report.Stated(r.Ideal.Certain)},
		report.Fact{Key: "ideal_seconds.omniscient", Value: report.Stated(r.Ideal.Omniscient)},
		report.Fact{Key: "efficiency.omniscient", Value: report.Efficiency(r.Omniscient(), 0)},
	)
}

func (r *Result) statuses() string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d with status %d", r.Statuses[status], status))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// rejected is how many answers were errors.
func (r *Result) rejected() (n int) {
	for status, count := range r.Statuses {
		if status >= 400 {
			n += count
		}
	}
	return n
}

// verdict wants no request to fail, and one at least to succeed.
func (r *Result) verdict(c Config, demand report.Demand) report.Verdict {
	all := report.Counted(r.Requests, "request")
	if r.Interrupted {
		return report.Verdict{Status: report.Interrupted, Line: fmt.Sprintf("%d of %s answered", r.Answered, all)}
	}
	var reasons []string
	switch n := r.Failed(); {
	case n > 0:
		reasons = append(reasons, fmt.Sprintf("%d of %s failed", n, all))
	case r.Answered == 0:
		reasons = append(reasons, "no request was answered")
	case r.rejected() == r.Answered:
		reasons = append(reasons, "every answer was an error"+r.statuses())
	}
	reasons = append(reasons, demand.Missed(r.Refused.Total(), r.Certain())...)
	line := fmt.Sprintf("%d of %s answered", r.Answered, all)
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
	return report.Judge(line, reasons...)
}

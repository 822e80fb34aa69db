package tune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// fewWindows is the smallest number of windows that a load must last. A shorter load would show only how the load
// begins.
const fewWindows = 3

// Report returns the comparison as a report, which contains routes and ids from the trace, but no tokens.
func (r *Report) Report() *report.Report {
	verdict := r.verdict()
	judged := verdict.Status == report.Passed
	return &report.Report{
		Title: "Max rate limits for " + report.Counted(r.Load.Requests(), "request"), About: r.about(), Verdict: verdict,
		Facts: r.facts(judged), Tables: []report.Table{r.limitsTable(), r.table(judged)},
		Charts: []report.Chart{r.chart(judged)},
	}
}

// about describes the load, and the rules of the simulated Discord.
func (r *Report) about() []string {
	l, d := r.Load, &r.Discord
	templates, _ := l.byRoute()
	requests := fmt.Sprintf("%s in %s", report.Counted(l.Requests(), "request"), report.Time(l.Length))
	lines := []string{fmt.Sprintf("%s; %s, %s", requests,
		report.Counted(len(templates), "route"), report.Counted(len(r.limits)-1, "bucket"))}
	if l.Skipped > 0 {
		lines = append(lines, fmt.Sprintf("%s skipped, the first because of this: %v",
			report.Counted(l.Skipped, "line"), l.FirstSkipped))
	}
	which := "all routes"
	for _, rule := range d.Given {
		which = "all other routes"
		lines = append(lines, fmt.Sprintf("rule: %s %s = %s", rule.Method, rule.Path, load.QuotaText(rule.Quota)))
	}
	others := "limits as measured at Discord"
	if !d.Preset {
		others = load.QuotaText(d.Others[0].Quota)
	}
	return append(lines, fmt.Sprintf("%s: %s; %s", which, others, load.GlobalText(d.GlobalLimit)),
		fmt.Sprintf("%s; seed %d", load.LatencyText(d.Latency), d.Seed))
}

// verdict recommends the smallest value, unless the load is not suited to judge values.
func (r *Report) verdict() report.Verdict {
	bottleneck, reasons := r.bottleneck(), r.doubts()
	if bottleneck < 0 {
		reasons = append(reasons, fmt.Sprintf("no limit made a request wait, so all values do the same; "+
			"%s in %s cannot tell which one to set",
			report.Counted(r.Load.Requests(), "request"), report.Time(r.Load.Length)))
	}
	if len(reasons) > 0 {
		return report.Verdict{Status: report.NotJudged, Reasons: reasons}
	}
	best, useful := r.Results[r.Smallest], report.Setting(r.Useful)
	line := fmt.Sprintf("%s is the smallest max rate limit that refuses nothing that could have left within %s",
		report.Setting(best.MaxRateLimit), useful)
	switch i := slices.IndexFunc(r.Results, func(v Result) bool { return v.MaxRateLimit == r.Useful }); {
	case best.MaxRateLimit > r.Useful:
		line += "; it is longer, because predictions are too long until the client knows how a bucket refills"
	case best.MaxRateLimit < r.Useful && r.Results[i].Refused == best.Refused:
		line += fmt.Sprintf("; values up to %s do the same", useful)
	}
	return report.Verdict{Status: report.Passed, Line: line, Reasons: append(r.sides(), r.name(bottleneck))}
}

// sides says what the recommended value, a smaller one and a larger one do.
func (r *Report) sides() (lines []string) {
	useful := report.Setting(r.Useful)
	if best := r.Results[r.Smallest]; best.Refused > 0 {
		lines = append(lines, fmt.Sprintf("Recommended: %s refuses %s, which could not have left within %s.",
			report.Setting(best.MaxRateLimit), report.Counted(best.Refused, "request"), useful))
	}
	if best := r.Results[r.Smallest]; best.Late > 0 {
		lines = append(lines, fmt.Sprintf("Recommended: %s lets %s wait longer than %s.",
			report.Setting(best.MaxRateLimit), report.Counted(best.Late, "request"), useful))
	}
	if r.Smallest > 0 {
		smaller := r.Results[r.Smallest-1]
		lines = append(lines, fmt.Sprintf("Smaller: %s refuses %s, though %d of them could have left within %s.",
			report.Setting(smaller.MaxRateLimit), report.Counted(smaller.Refused, "request"), smaller.InVain, useful))
	}
	beyond := max(r.Useful, r.Results[r.Smallest].MaxRateLimit)
	if i := slices.IndexFunc(r.Results, func(v Result) bool { return v.MaxRateLimit > beyond }); i >= 0 {
		larger := r.Results[i]
		line := fmt.Sprintf("Larger: with %s, %d requests wait longer than %s, the longest %s.",
			report.Setting(larger.MaxRateLimit), larger.Late, useful, report.Time(larger.Max))
		lines = append(lines, strings.Replace(line, " 0 requests wait", " no request waits", 1))
	}
	return lines
}

// doubts lists why the load is not suited to judge values.
func (r *Report) doubts() (reasons []string) {
	for i, limit := range r.limits {
		period := limit.quota.Period
		if period == 0 || r.Results[r.Smallest].tallies[i].requests == 0 {
			continue
		}
		allowed := float64(limit.quota.Limit) * (float64(r.Load.Length)/float64(period) + 1)
		switch {
		case r.Load.Length < fewWindows*period:
			reasons = append(reasons, fmt.Sprintf("the load lasts %s, and %s has windows of %s: expected %d windows or more",
				report.Time(r.Load.Length), limit.name, report.Setting(period), fewWindows))
		case float64(limit.requests) > allowed:
			reasons = append(reasons, fmt.Sprintf("%d requests in %s are for %s, and %s allows %.0f: "+
				"either the rule is wrong, or the load is too large and no max rate limit helps",
				limit.requests, report.Time(r.Load.Length), limit.name, load.QuotaText(limit.quota), allowed))
		}
	}
	return reasons
}

// bottleneck returns the index of the limit with the largest sum of waits. Each request counts for the limit that
// opened last for it. The index is -1 if no request waited for a limit.
func (r *Report) bottleneck() int {
	worst, most := -1, time.Duration(0)
	for i, t := range r.Results[r.Smallest].tallies {
		if t.waited > most {
			worst, most = i, t.waited
		}
	}
	return worst
}

// name describes the bottleneck.
func (r *Report) name(bottleneck int) string {
	t := r.Results[r.Smallest].tallies[bottleneck]
	refused := ""
	if t.refused > 0 {
		refused = fmt.Sprintf(" (%d refused)", t.refused)
	}
	return fmt.Sprintf("The bottleneck is %s: it opened last for %s%s, after %s in all and %s at most.",
		r.limits[bottleneck].name, report.Counted(t.requests, "request"), refused,
		report.Time(t.waited), report.Time(t.longest))
}

// facts returns facts about the recommended value.
func (r *Report) facts(judged bool) []report.Fact {
	v, recommended, remark := r.Results[r.Smallest], report.Value{}, "none, see the reasons below"
	if judged {
		recommended, remark = report.Setting(v.MaxRateLimit), "as max rate limit"
	}
	facts := []report.Fact{
		{Name: "recommended", Key: "recommended_seconds", Value: recommended, Remark: remark, Main: true},
		{Name: "refused", Value: report.Count(v.Refused), Main: true,
			Remark: fmt.Sprintf("of %s; %d could have left within %s",
				report.Counted(v.Requests, "request"), v.InVain, report.Setting(r.Useful))},
		{Name: "queued, 99 %", Value: report.Time(v.P99), Main: true},
		{Name: "queued, longest", Value: report.Time(v.Max), Main: true},
		{Key: "useful_seconds", Value: report.Setting(r.Useful)},
		{Key: "load.requests", Value: report.Count(r.Load.Requests())},
		{Key: "load.seconds", Value: report.Time(r.Load.Length)},
		{Key: "load.skipped_lines", Value: report.Count(r.Load.Skipped)},
	}
	if i := r.bottleneck(); i >= 0 {
		facts = append(facts, report.Fact{Key: "bottleneck.name", Value: report.Text(r.limits[i].name)},
			report.Fact{Key: "bottleneck.waited_seconds", Value: report.Time(v.tallies[i].waited)})
	}
	return facts
}

// limitsTable lists the limit that was simulated for each route.
func (r *Report) limitsTable() report.Table {
	t := report.Table{Title: "limits", Key: "routes", Columns: []report.Column{
		{Name: "route", Key: "route", Left: true}, {Name: "requests", Key: "requests"},
		{Name: "limit of each channel, guild or webhook", Key: "limit", Left: true},
		{Name: "from", Key: "from", Left: true,
			Note: "rule: named with -rule; preset: as measured at Discord; flags: -limit, -window and -kind"},
	}}
	templates, requests := r.Load.byRoute()
	for _, template := range templates {
		i := slices.IndexFunc(r.Load.queues, func(q queue) bool { return q.template() == template })
		rule, given := r.Discord.rule(&r.Load.queues[i])
		from := "flags"
		if given {
			from = "rule"
		} else if r.Discord.Preset {
			from = "preset"
		}
		t.Rows = append(t.Rows, []report.Value{
			report.Text(template), report.Count(requests[template]), report.Text(load.QuotaText(rule.Quota)), report.Text(from),
		})
	}
	return t
}

func (r *Report) table(judged bool) report.Table {
	useful := report.Setting(r.Useful)
	t := report.Table{Title: "max rate limits", Key: "values", Mark: "recommended", Columns: []report.Column{
		{Name: "max rate\nlimit", Key: "max_rate_limit_seconds"},
		{Name: "refused", Key: "refused",
			Note: "requests that the client refused at once, because their predicted wait exceeded the max rate limit"},
		{Name: "refused\nin vain", Key: "refused_in_vain",
			Note: fmt.Sprintf("those that could have left within %s, by their prediction or in a replay that refuses nothing",
				useful)},
		{Name: "too\nlate", Key: "late",
			Note: fmt.Sprintf("requests that waited longer than %s; a smaller value would refuse them at once", useful)},
		{Name: "queued\np50", Key: "queued_seconds.median",
			Note: "how long requests were held back, round trips not counted: median, 99th percentile, longest"},
		{Name: "\np99", Key: "queued_seconds.p99"},
		{Name: "\nlongest", Key: "queued_seconds.max"},
		{Name: "429s", Key: "rate_limited"},
	}}
	if judged {
		t.Marked = r.Smallest + 1
	}
	for _, v := range r.Results {
		t.Rows = append(t.Rows, []report.Value{
			report.Setting(v.MaxRateLimit), report.Count(v.Refused), report.Count(v.InVain), report.Count(v.Late),
			report.Time(v.Median), report.Time(v.P99), report.Time(v.Max), report.Count(v.Limited),
		})
	}
	return t
}

// chart shows for each value how many requests are refused in vain, and how many leave too late.
func (r *Report) chart(judged bool) report.Chart {
	c := report.Bars{
		Title: "Too small, too large",
		Summary: fmt.Sprintf("How many requests each value refuses in vain, and how many wait longer than %s.",
			report.Setting(r.Useful)),
		Names: []string{"refused in vain", "too late"},
	}
	for i, v := range r.Results {
		name := report.Setting(v.MaxRateLimit).String()
		marked := judged && i == r.Smallest
		c.Groups = append(c.Groups, report.Group{Name: name, Counts: []int{v.InVain, v.Late}, Marked: marked})
	}
	return c
}

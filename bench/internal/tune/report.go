package tune

import (
	"fmt"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// Report describes what came of the values. Of the paths of a trace it contains routes and ids, no tokens.
func (r Report) Report(c Config) *report.Report {
	return &report.Report{
		Title: "Max rate limits for " + report.Counted(c.Load.Requests(), "request"), About: c.about(), Verdict: r.verdict(),
		Facts: r.facts(c), Tables: []report.Table{r.table()}, Charts: r.charts(),
	}
}

// about says what was replayed, and against what.
func (c *Config) about() []string {
	made, d := c.Load, c.Discord
	requests := fmt.Sprintf("%s in %s", report.Counted(made.Requests(), "request"), report.Time(made.Length))
	if made.Bursts > 0 {
		requests += fmt.Sprintf(", %s among them", report.Counted(made.Bursts, "burst"))
	}
	lines := []string{fmt.Sprintf("%s; %s, %s", requests, report.Counted(made.Routes(), "route"), report.Counted(made.Queues(), "bucket"))}
	if made.Skipped > 0 {
		lines = append(lines, fmt.Sprintf("%s skipped, the first because of this: %v", report.Counted(made.Skipped, "line"), made.FirstSkipped))
	}
	each := "bucket"
	if n := len(d.Rules); n > 0 {
		each += " but " + report.Counted(n, "route")
	}
	return append(lines, load.LimitsText(d.Quota, each, d.GlobalLimit), fmt.Sprintf("%s; seed %d", load.LatencyText(d.Latency), d.Seed))
}

func (r Report) verdict() report.Verdict {
	const smallestText = "%s is the smallest value that refuses %s or less (%s)"
	acceptable, setting, share := report.Share(r.Acceptable), report.Setting, func(v Result) report.Value { return report.Share(v.Share()) }
	if r.Recommended < 0 {
		last := r.Results[len(r.Results)-1]
		line := fmt.Sprintf("no value refuses %s or less; the largest, %s, refuses %s", acceptable, setting(last.MaxRateLimit), share(last))
		return report.Verdict{Status: report.Failed, Line: line, Reasons: r.Bottleneck.advice(last)}
	}
	smallest := r.Results[r.Smallest]
	line := fmt.Sprintf(smallestText, setting(smallest.MaxRateLimit), acceptable, share(smallest))
	switch {
	case r.Free >= 0 && r.Free != r.Smallest:
		free := r.Results[r.Free]
		line += fmt.Sprintf("; %s refuses nothing, but requests wait up to %s", setting(free.MaxRateLimit), report.Time(free.Max))
		if r.Recommended == r.Free {
			line = fmt.Sprintf("%s refuses nothing, and nobody waits longer than %s; %s would refuse %s",
				setting(free.MaxRateLimit), report.Time(free.Max), setting(smallest.MaxRateLimit), share(smallest))
		}
	case r.Smallest == 0:
		line += "; smaller ones were not tried"
	default:
		smaller := r.Results[r.Smallest-1]
		line += fmt.Sprintf("; %s refuses %s", setting(smaller.MaxRateLimit), share(smaller))
	}
	return report.Verdict{Status: report.Passed, Line: line, Reasons: []string{r.Bottleneck.remains()}}
}

// remains says which limit is still most in the way when few enough requests are refused.
func (b *Bottleneck) remains() string {
	switch {
	case b == nil:
		return "There is no bottleneck: no request waits for a limit."
	case b.Refused > 0:
		return fmt.Sprintf("The bottleneck is %s (%d refused).", b.shownName(), b.Refused)
	}
	return fmt.Sprintf("The bottleneck is %s: requests waited %s for it in all, the longest %s.",
		b.shownName(), report.Time(b.Waited), report.Time(b.Longest))
}

func (b *Bottleneck) shownName() string {
	if b.Name == "" {
		return "the global limit"
	}
	return b.Name
}

// advice says which limit is in the way and what helps.
func (b *Bottleneck) advice(last Result) []string {
	lines := []string{b.remains()}
	allows := fmt.Sprintf("%d per %s", b.Limit, report.Setting(b.Period))
	switch {
	case b.Lasting:
		return append(lines, fmt.Sprintf("%.3g requests per second are asked for, not only for a while, and it allows %.3g (%s).",
			b.Asked, float64(b.Limit)/b.Period.Seconds(), allows), "No max rate limit helps against that; fewer requests do.")
	case b.Limit > 0:
		lines = append(lines, fmt.Sprintf("It allows %s, and for a while there is more to do: requests would have to wait for %s or more.",
			allows, report.Time(b.Longest)))
	}
	return append(lines, fmt.Sprintf("Try values above %s, or spread the requests.", report.Setting(last.MaxRateLimit)))
}

// facts are about the recommended value, or about the largest one if there is none.
func (r Report) facts(c Config) []report.Fact {
	v, recommended, remark := r.Results[len(r.Results)-1], report.Value{}, "none; the other numbers are those of the largest value"
	if r.Recommended >= 0 {
		v = r.Results[r.Recommended]
		recommended, remark = report.Setting(v.MaxRateLimit), "as max rate limit"
	}
	load, firstSkipped := c.Load, ""
	if load.Skipped > 0 {
		firstSkipped = load.FirstSkipped.Error()
	}
	facts := []report.Fact{
		{Name: "recommended", Key: "recommended_seconds", Value: recommended.Bad(r.Recommended < 0), Remark: remark, Main: true},
		{Name: "refused", Value: report.Share(v.Share()).Bad(r.Recommended < 0), Main: true,
			Remark: fmt.Sprintf("%d of %s", v.Refused, report.Counted(v.Requests, "request"))},
		{Name: "429s", Value: report.Count(v.Limited), Main: true},
		{Name: "queued, median", Value: report.Time(v.Median), Main: true},
		{Name: "queued, longest", Value: report.Time(v.Max), Main: true},
		{Key: "load.requests", Value: report.Count(load.Requests())},
		{Key: "load.routes", Value: report.Count(load.Routes())},
		{Key: "load.buckets", Value: report.Count(load.Queues())},
		{Key: "load.seconds", Value: report.Time(load.Length)},
		{Key: "load.skipped_lines", Value: report.Count(load.Skipped)},
		{Key: "load.first_skipped_line", Value: report.Text(firstSkipped)},
		{Key: "acceptable_share", Value: report.Share(r.Acceptable)},
	}
	b := r.Bottleneck
	if b == nil {
		return append(facts, report.Fact{Key: "bottleneck"})
	}
	for key, value := range map[string]report.Value{
		"name": report.Text(b.Name), "refused_early": report.Count(b.Refused), "waited_seconds": report.Time(b.Waited),
		"asked_per_second": report.Number(b.Asked, 3, ""), "limit": report.Count(b.Limit), "period_seconds": report.Time(b.Period),
		"lasting": report.Data(b.Lasting), "longest_predicted_wait_seconds": report.Time(b.Longest),
	} {
		facts = append(facts, report.Fact{Key: "bottleneck." + key, Value: value})
	}
	return facts
}

func (r Report) table() report.Table {
	t := report.Table{Title: "max rate limits", Key: "values", Marked: r.Recommended + 1, Mark: "recommended", Columns: []report.Column{
		{Name: "max rate\nlimit", Key: "max_rate_limit_seconds"},
		{Name: "refused", Key: "refused_early", Note: "requests that the client refused at once, because their predicted wait exceeded the max rate limit"},
		{Name: "part", Key: "refused_early_share"},
		{Name: "queued\np50", Key: "queued_seconds.median",
			Note: "how long the others were held back, round trips not counted: median, 99th percentile, longest"},
		{Name: "\np99", Key: "queued_seconds.p99"},
		{Name: "\nlongest", Key: "queued_seconds.max"},
		{Name: "longest\nqueue", Key: "longest_queue", Note: "requests that waited at once for one route and channel"},
		{Name: "waiting\nin all", Key: "most_waiting", Note: "the same for all of them together"},
		{Name: "429s", Key: "rate_limited"},
		{Name: "last\nanswer", Key: "last_answer_seconds", Note: "time from the first request to the last answer"},
	}}
	for _, v := range r.Results {
		t.Rows = append(t.Rows, []report.Value{
			report.Setting(v.MaxRateLimit), report.Count(v.Refused), report.Share(v.Share()), report.Time(v.Median), report.Time(v.P99), report.Time(v.Max),
			report.Count(v.LongestQueue), report.Count(v.MostWaiting), report.Count(v.Limited), report.Time(v.Makespan),
		})
	}
	return t
}

func (r Report) charts() []report.Chart {
	var names []string
	line := func(name string, value func(Result) float64) report.Series {
		s := report.Series{Name: name}
		for i, v := range r.Results {
			s.Points = append(s.Points, report.Point{X: float64(i), Y: value(v)})
		}
		return s
	}
	for _, v := range r.Results {
		names = append(names, report.Setting(v.MaxRateLimit).String())
	}
	x := report.Axis{Label: "max rate limit"}
	times := func(name string, value func(Result) time.Duration) report.Series {
		return line(name, func(v Result) float64 { return value(v).Seconds() })
	}
	return []report.Chart{{
		Title: "Refused", X: x, Y: report.Axis{Label: "requests refused", Unit: "%"}, Names: names, Marked: r.Recommended + 1, Series: []report.Series{
			line("refused", func(v Result) float64 { return 100 * v.Share() }),
			line("acceptable", func(Result) float64 { return 100 * r.Acceptable }),
		},
	}, {
		Title: "Queued", X: x, Y: report.Axis{Label: "held back", Unit: "s"}, Names: names, Marked: r.Recommended + 1, Series: []report.Series{
			times("median", func(v Result) time.Duration { return v.Median }),
			times("99 %", func(v Result) time.Duration { return v.P99 }),
			times("longest", func(v Result) time.Duration { return v.Max }),
		},
	}}
}

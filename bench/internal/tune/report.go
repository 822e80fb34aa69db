package tune

import (
	"cmp"
	"fmt"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/report"
)

// Report returns the comparison as a report. Of a trace's paths it contains routes and ids, but no tokens.
func (r Report) Report() *report.Report {
	return &report.Report{
		Title: "Max rate limits for " + report.Counted(r.Load.Requests(), "request"), About: r.about(), Verdict: r.verdict(),
		Facts: r.facts(), Tables: []report.Table{r.table()}, Charts: r.charts(),
	}
}

// about describes the load and the simulated Discord.
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

// share returns the fraction that a value rejects, with enough digits to tell it from the acceptable one.
func (r Report) share(v Result) report.Value { return report.Share(v.Share(), r.Acceptable) }

func (r Report) verdict() report.Verdict {
	acceptable, setting := report.Share(r.Acceptable), report.Setting
	if r.Recommended < 0 && r.Free == 0 {
		line := fmt.Sprintf("no limit made a request wait, so all values do the same; %s in %s cannot tell which one to set",
			report.Counted(r.Load.Requests(), "request"), report.Time(r.Load.Length))
		return report.Verdict{Status: report.NotJudged, Line: line}
	}
	if r.Recommended < 0 {
		last := r.shown()
		line := fmt.Sprintf("no value refuses %s or less; the largest, %s, refuses %s", acceptable, setting(last.MaxRateLimit), r.share(last))
		return report.Verdict{Status: report.Failed, Line: line, Reasons: r.Bottleneck.advice(last)}
	}
	smallest := r.Results[r.Smallest]
	line := fmt.Sprintf("%s is the smallest value that refuses %s or less (%s)", setting(smallest.MaxRateLimit), acceptable, r.share(smallest))
	switch {
	case r.Free >= 0 && r.Free != r.Smallest:
		free := r.Results[r.Free]
		line += fmt.Sprintf("; %s refuses nothing, but requests wait up to %s", setting(free.MaxRateLimit), report.Time(free.Max))
		if r.Recommended == r.Free {
			line = fmt.Sprintf("%s refuses nothing, and nobody waits longer than %s; %s would refuse %s",
				setting(free.MaxRateLimit), report.Time(free.Max), setting(smallest.MaxRateLimit), r.share(smallest))
		}
	case r.Smallest == 0:
		line += "; smaller ones were not tried"
	default:
		smaller := r.Results[r.Smallest-1]
		line += fmt.Sprintf("; %s refuses %s", setting(smaller.MaxRateLimit), r.share(smaller))
	}
	return report.Verdict{Status: report.Passed, Line: line, Reasons: []string{r.Bottleneck.remains()}}
}

// remains names the bottleneck, and how many requests it rejects or how long they wait for it.
func (b *Bottleneck) remains() string {
	if b == nil {
		return "There is no bottleneck: no request waits for a limit."
	}
	name := cmp.Or(b.Name, "the global limit")
	if b.Refused > 0 {
		return fmt.Sprintf("The bottleneck is %s (%d refused).", name, b.Refused)
	}
	return fmt.Sprintf("The bottleneck is %s: requests waited %s for it in all, the longest %s.", name, report.Time(b.Waited), report.Time(b.Longest))
}

// advice names the bottleneck and says what helps.
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

// facts returns facts about the recommended value, or about the largest one if none is recommended.
func (r Report) facts() []report.Fact {
	v, recommended, remark := r.shown(), report.Value{}, "none; the other numbers are those of the largest value"
	if r.Recommended >= 0 {
		recommended, remark = report.Setting(v.MaxRateLimit), "as max rate limit"
	}
	load, firstSkipped := r.Load, ""
	if load.Skipped > 0 {
		firstSkipped = load.FirstSkipped.Error()
	}
	failed := v.Share() > r.Acceptable
	facts := []report.Fact{
		{Name: "recommended", Key: "recommended_seconds", Value: recommended.Bad(failed), Remark: remark, Main: true},
		{Name: "refused", Value: r.share(v).Bad(failed), Main: true,
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
	var limit, lasting report.Value // not stated if the client never learned the limit
	if b.Limit > 0 {
		limit, lasting = report.Count(b.Limit), report.Data(b.Lasting)
	}
	return append(facts,
		report.Fact{Key: "bottleneck.name", Value: report.Text(b.Name)},
		report.Fact{Key: "bottleneck.refused_early", Value: report.Count(b.Refused)},
		report.Fact{Key: "bottleneck.waited_seconds", Value: report.Time(b.Waited)},
		report.Fact{Key: "bottleneck.asked_per_second", Value: report.Number(b.Asked, 3, "")},
		report.Fact{Key: "bottleneck.limit", Value: limit},
		report.Fact{Key: "bottleneck.period_seconds", Value: report.Stated(b.Period)},
		report.Fact{Key: "bottleneck.lasting", Value: lasting},
		report.Fact{Key: "bottleneck.longest_predicted_wait_seconds", Value: report.Time(b.Longest)},
	)
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
			report.Setting(v.MaxRateLimit), report.Count(v.Refused), r.share(v), report.Time(v.Median), report.Time(v.P99), report.Time(v.Max),
			report.Count(v.LongestQueue), report.Count(v.MostWaiting), report.Count(v.Limited), report.Time(v.Makespan),
		})
	}
	return t
}

// charts returns curves over the values.
func (r Report) charts() []report.Chart {
	var names []string
	for _, v := range r.Results {
		names = append(names, report.Setting(v.MaxRateLimit).String())
	}
	line := func(name string, value func(Result) float64) report.Series {
		s := report.Series{Name: name}
		for i, v := range r.Results {
			s.Points = append(s.Points, report.Point{X: float64(i), Y: value(v)})
		}
		return s
	}
	x := report.Axis{Label: "max rate limit"}
	return []report.Chart{{
		Title: "Refused", Summary: "The part of the requests that each value refuses.", X: x, Y: report.Axis{Label: "requests refused", Unit: "%"},
		Names: names, Marked: r.Recommended + 1, Series: []report.Series{
			line("refused", func(v Result) float64 { return 100 * v.Share() }),
			line("acceptable", func(Result) float64 { return 100 * r.Acceptable }),
		},
	}, {
		Title: "Queued", Summary: "How long the others are held back.", X: x, Y: report.Axis{Label: "held back", Unit: "s"},
		Names: names, Marked: r.Recommended + 1, Series: []report.Series{
			line("median", func(v Result) float64 { return v.Median.Seconds() }),
			line("99 %", func(v Result) float64 { return v.P99.Seconds() }),
			line("longest", func(v Result) float64 { return v.Max.Seconds() }),
		},
	}}
}

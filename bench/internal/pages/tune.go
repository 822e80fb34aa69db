package pages

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/options"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/tune"
)

// mostRoutes is how many routes and rules are listed.
const mostRoutes = 20

// Tune is the report of a search for the max rate limit. Of the paths of a trace it contains routes and ids, no tokens.
func Tune(o options.Tune, load *tune.Load, r tune.Report) Page {
	section := Section{
		Tiles:  tuneTiles(r),
		Tables: []Table{tuneTable(r)},
		Charts: tuneCharts(r),
		Facts:  []Facts{{"Load", tunedLoad(o, load)}, {"Simulated Discord", tunedDiscord(o)}},
		Notes: []string{
			"refused: requests that the client refused at once, because their predicted wait exceeded the max rate limit.",
			"queued: how long the others were held back, round trips not counted: median, 99th percentile, longest.",
			"longest queue: requests that waited at once for one route and channel; waiting in all: for all of them together.",
			"last answer: time from the first request to the last answer.",
		},
	}
	if r.Bottleneck != nil {
		section.Facts = append(section.Facts, Facts{"Bottleneck", bottleneck(r.Bottleneck)})
	}
	return Page{
		Title:    "Max rate limits for " + counted(load.Requests(), "request", "requests"),
		About:    "The load was replayed against a simulated Discord, in virtual time, once for each max rate limit: the longest predicted wait that the client accepts.",
		Verdict:  tuneVerdict(r),
		Sections: []Section{section},
	}
}

func tuneVerdict(r tune.Report) Verdict {
	lines := strings.Split(output.Recommendation(r), "\n")
	verdict := Verdict{Status: Passed, Line: capital(lines[0]), Reasons: lines[1:]}
	if r.Recommended < 0 {
		verdict.Status = Failed
	}
	return verdict
}

// tuneTiles are about the recommended value, or about the largest one if there is none.
func tuneTiles(r tune.Report) []Tile {
	v := r.Results[len(r.Results)-1]
	recommended := Tile{Name: "recommended", Value: "none", Remark: "these numbers are those of " + output.Setting(v.MaxRateLimit), Bad: true}
	if r.Recommended >= 0 {
		v = r.Results[r.Recommended]
		recommended = Tile{Name: "recommended", Value: output.Setting(v.MaxRateLimit), Remark: "as max rate limit"}
	}
	return []Tile{
		recommended,
		{Name: "refused", Value: output.Percent(v.Share()), Remark: fmt.Sprintf("%d of %s", v.Refused, counted(v.Requests, "request", "requests")), Bad: r.Recommended < 0},
		{Name: "queued, median", Value: measured(v.Median), Remark: "99 %: " + measured(v.P99)},
		{Name: "queued, longest", Value: measured(v.Max)},
		{Name: "longest queue", Value: fmt.Sprint(v.LongestQueue), Remark: fmt.Sprintf("waiting in all: %d", v.MostWaiting)},
		{Name: "429s", Value: fmt.Sprint(v.Limited)},
	}
}

func tuneTable(r tune.Report) Table {
	table := Table{Title: "Values", Columns: []string{
		"max rate limit", "refused", "part", "queued, p50", "p99", "longest", "longest queue", "waiting in all", "429s", "last answer", "<",
	}}
	for i, row := range output.TuneRows(r) {
		cells := Texts(append(row, "")...)
		if i == r.Recommended {
			cells[0].Text, cells[0].Status = "✓ "+cells[0].Text, Passed // the first column is always in sight
			cells[len(cells)-1] = Cell{Text: "recommended", Status: Passed}
		}
		table.Rows = append(table.Rows, cells)
	}
	return table
}

func tuneCharts(r tune.Report) []Chart {
	limits := Setting{Name: "max rate limit", Marked: r.Recommended, Mark: "recommended"}
	refused, acceptable := Outcome{Name: "refused"}, Outcome{Name: "acceptable"}
	median, p99, longest := Outcome{Name: "median"}, Outcome{Name: "99 %"}, Outcome{Name: "longest"}
	var most time.Duration
	for _, v := range r.Results {
		most = max(most, v.Max)
	}
	clock := newClock(most)
	for _, v := range r.Results {
		limits.Values = append(limits.Values, output.Setting(v.MaxRateLimit))
		refused.Values = append(refused.Values, 100*v.Share())
		acceptable.Values = append(acceptable.Values, 100*r.Acceptable)
		median.Values = append(median.Values, clock.time(v.Median))
		p99.Values = append(p99.Values, clock.time(v.P99))
		longest.Values = append(longest.Values, clock.time(v.Max))
	}
	return []Chart{
		Outcomes("Refused", limits, Axis{"requests refused", "%"}, refused, acceptable),
		Outcomes("Queued", limits, Axis{"held back", clock.unit}, median, p99, longest),
	}
}

func tunedLoad(o options.Tune, load *tune.Load) []Fact {
	bursts := ""
	if load.Bursts > 0 {
		bursts = fmt.Sprintf("%s of %d among them", counted(load.Bursts, "burst", "bursts"), o.Burst)
	}
	facts := []Fact{
		{"requests", fmt.Sprint(load.Requests()), bursts},
		{"time", output.Long(load.Length), "in which they are made"},
		{"routes", fmt.Sprint(load.Routes()), ""},
		{"buckets", fmt.Sprint(load.Queues()), "each route for each channel, guild or webhook"},
	}
	if o.Trace != "" {
		source := filepath.Base(o.Trace)
		if o.Trace == "-" {
			source = "standard input"
		}
		return append(facts, Fact{"recorded in", source, ""})
	}
	facts = append(facts, Fact{"made up for", counted(o.Channels, "channel", "channels"),
		fmt.Sprintf("skew %g: the n-th most popular one gets a share proportional to 1/n^skew", o.Skew)})
	total := 0.0
	for _, share := range o.Mix {
		total += share.Weight
	}
	for i, share := range o.Mix {
		if i == mostRoutes {
			return append(facts, Fact{"route", "…", fmt.Sprintf("%d more", len(o.Mix)-i)})
		}
		part := "all requests"
		if len(o.Mix) > 1 {
			part = output.Percent(share.Weight/total) + " of the requests"
		}
		facts = append(facts, Fact{"route", shortened(share.Route.String()), part})
	}
	return facts
}

func tunedDiscord(o options.Tune) []Fact {
	global := "none"
	if o.GlobalLimit > 0 {
		global = fmt.Sprintf("%d per second", o.GlobalLimit)
	}
	kind := map[string]string{"fixed": "fixed window", "sliding": "sliding window", "leaky": "leaky bucket"}[o.Kind]
	facts := []Fact{
		{"limit", perWindow(o.Limit, o.Window), "in each bucket (" + kind + ")"},
		{"global limit", global, ""},
		{"round trip", output.Setting(o.Latency) + " ± " + output.Setting(o.Jitter), ""},
		{"seed", fmt.Sprint(o.Seed), ""},
	}
	for i, rule := range o.Rules {
		if i == mostRoutes {
			return append(facts, Fact{"rule", "…", fmt.Sprintf("%d more", len(o.Rules)-i)})
		}
		limit := "no limit"
		if rule.Limit > 0 {
			limit = perWindow(rule.Limit, rule.Window)
		}
		facts = append(facts, Fact{"rule", limit, shortened(rule.Method + " " + rule.Template)})
	}
	return facts
}

func bottleneck(b *tune.Bottleneck) []Fact {
	name := b.Name
	if name == "" {
		name = "the global limit"
	}
	facts, longest := []Fact{{"limit", shortened(name), ""}}, Fact{"longest wait", output.Long(b.Longest), ""}
	if b.Refused > 0 {
		facts = append(facts, Fact{"refused", fmt.Sprint(b.Refused), "because of it"})
		longest = Fact{"predicted wait", output.Long(b.Longest), "the longest that was refused"}
	} else {
		facts = append(facts, Fact{"waited", output.Long(b.Waited), "for it, by all requests together"})
	}
	if b.Limit > 0 {
		facts = append(facts, Fact{"allows", perWindow(b.Limit, b.Period), fmt.Sprintf("%.3g per second", float64(b.Limit)/b.Period.Seconds())})
	}
	if b.Asked > 0 {
		facts = append(facts, Fact{"asked for", fmt.Sprintf("%.3g per second", b.Asked), "on the average of the whole load"})
	}
	if b.Longest > 0 {
		facts = append(facts, longest)
	}
	return facts
}

func perWindow(limit int, window time.Duration) string {
	return fmt.Sprintf("%d per %s", limit, output.Setting(window))
}

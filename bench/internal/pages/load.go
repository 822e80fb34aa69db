package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/output"
	"github.com/ratelight/ratelight/bench/internal/trace"
)

const (
	// mostFailures is how many different errors are listed.
	mostFailures = 20
	// longestText bounds what others wrote, in characters.
	longestText = 300
)

// measured shows a time that was measured.
func measured(d time.Duration) string { return output.Seconds(d) }

// Load is the report of a load. It contains neither the token nor the parameters of the path.
func Load(config load.Config, result load.Result, verdict output.Verdict, log trace.Log) Page {
	page := Page{
		Title:   loadTitle(config),
		Verdict: loadVerdict(result, verdict),
	}
	columns, rows := output.Refusals(result)
	refused := Table{Title: "429s", Columns: columns}
	for _, row := range rows {
		refused.Rows = append(refused.Rows, Texts(row...))
	}
	section := Section{
		Tiles:  loadTiles(result),
		Facts:  []Facts{{"Measured", loadMeasures(result)}, {"Settings", loadSettings(config)}},
		Tables: []Table{refused},
	}
	if config.Real != nil {
		section.Notes = append(section.Notes, "Only the simulator can tell which 429s could have been avoided, and when windows opened and closed.")
	}
	var notes []string
	section.Charts, notes = charts(&log, result.Reading.Queued, "run", config.Real != nil)
	section.Notes = append(section.Notes, notes...)
	page.Sections = []Section{section}
	return page
}

func loadTitle(config load.Config) string {
	requests := counted(config.Requests, "request", "requests")
	if config.Real != nil {
		return fmt.Sprintf("%s to %s", requests, config.Real.Target.Host)
	}
	return fmt.Sprintf("%s to %s", requests, counted(config.Simulated.Channels, "simulated channel", "simulated channels"))
}

func loadVerdict(result load.Result, verdict output.Verdict) Verdict {
	// The line of the text output without the word that the badge says.
	_, line, _ := strings.Cut(output.LoadVerdict(result, verdict), ": ")
	switch {
	case result.Interrupted:
		return Verdict{Status: Interrupted, Line: line}
	case !verdict.Passed:
		failed := Verdict{Status: Failed, Line: "Not all went as it was to go."}
		for _, reason := range verdict.Reasons {
			failed.Reasons = append(failed.Reasons, shortened(reason))
		}
		return failed
	}
	return Verdict{Status: Passed, Line: line}
}

func loadTiles(r load.Result) []Tile {
	tiles := []Tile{
		{Name: "answered", Value: fmt.Sprint(r.Answered), Remark: "of " + counted(r.Requests, "request", "requests"), Bad: r.Failed() > 0},
		{Name: "time taken", Value: measured(r.Took), Remark: "until the last answer"},
		{Name: "efficiency", Value: output.Part(r.Certain()), Remark: "of the certain ideal"},
		{Name: "429s", Value: fmt.Sprint(r.Refused.Total())},
		{Name: "queued, median", Value: measured(r.Reading.Queued.Median), Remark: "99 %: " + measured(r.Reading.Queued.P99)},
		{Name: "in flight", Value: fmt.Sprint(r.Reading.LargestInFlight), Remark: "at once, at most"},
	}
	if r.Judged {
		tiles[3].Remark, tiles[3].Bad = fmt.Sprintf("%d avoidable", r.Avoidable.Total()), r.Avoidable.Total() > 0
	}
	return tiles
}

// loadMeasures are the rows of the text output, with a bound on what servers and networks can make of errors.
func loadMeasures(r load.Result) (facts []Fact) {
	failures, left := 0, 0
	for _, row := range output.Measures(r) {
		switch {
		case row[0] == "":
			continue
		case row[0] == "failed":
			failures++
			if failures > mostFailures {
				left++
				continue
			}
		}
		facts = append(facts, Fact{row[0], row[1], shortened(row[2])})
	}
	if left > 0 {
		last := slices.IndexFunc(facts, func(f Fact) bool { return f.Name == "failed" }) + mostFailures
		facts = slices.Insert(facts, last, Fact{"failed", "…", counted(left, "further kind of error", "further kinds of errors")})
	}
	return facts
}

func shortened(text string) string {
	if runes := []rune(text); len(runes) > longestText {
		return string(runes[:longestText]) + "…"
	}
	return text
}

func loadSettings(c load.Config) []Fact {
	atOnce, global := "all at once", "none"
	if c.Concurrency > 0 {
		atOnce = counted(c.Concurrency, "at a time", "at a time")
	}
	if c.GlobalLimit > 0 {
		global = fmt.Sprintf("%d per second", c.GlobalLimit)
	}
	facts := []Fact{
		{"requests", fmt.Sprint(c.Requests), atOnce},
		{"max rate limit", output.Setting(c.MaxRateLimit), "longest predicted wait that the client accepts"},
		{"global limit", global, ""},
	}
	if c.Real != nil {
		return append(facts, Fact{"server", c.Real.Target.String(), ""}, Fact{"route", output.RouteOf(c.Real), ""})
	}
	s := c.Simulated
	return append(facts,
		Fact{"server", "simulated", "on this machine"},
		Fact{"buckets", fmt.Sprint(s.Channels), "one for each channel"},
		Fact{"limit", quotaText(s.Quota), "in each bucket"},
		Fact{"round trip", output.Setting(s.Latency.RoundTrip) + " ± " + output.Setting(s.Latency.Jitter), ""},
		Fact{"seed", fmt.Sprint(s.Seed), ""},
	)
}

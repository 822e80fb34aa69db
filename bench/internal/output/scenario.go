package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Scenarios writes the results of scenarios for people: a table, what was missed, and a verdict.
func Scenarios(w io.Writer, results []scenario.Result) {
	if len(results) == 1 {
		describeScenario(w, results[0].Scenario)
	}
	t := &table{columns: []string{
		"<scenario", "answered", "time", "certain", "omnisc.", "429s", "avoid-\nable", "in\nflight", "queued\np50", "\np99", "over-\ntaken", "<verdict",
	}}
	for _, r := range results {
		t.add(r.Scenario.Name, fmt.Sprintf("%d/%d", r.Answered, r.Requests), seconds(r.Took), part(r.Certain()), part(r.Omniscient()),
			classes(r.Refused), number(r.Avoidable.Total()), number(r.LargestInFlight),
			seconds(r.Queued.Median), seconds(r.Queued.P99), number(r.Inversions), verdictOf(r))
	}
	t.write(w)
	fmt.Fprint(w, legend)
	scenarioVerdict(w, results)
}

const legend = `
certain, omnisc.  efficiency against the ideal client that must be sure, and against the one that sees into the server
in flight         most requests under way at once
queued            time from handing a request to the client until it was sent: median and 99th percentile
overtaken         requests that reached the server after a later one of their bucket; only ordered promises none

`

func verdictOf(r scenario.Result) string {
	switch {
	case r.Interrupted:
		return "cut off"
	case len(r.Missed) > 0:
		return "MISSED"
	}
	return "ok"
}

// scenarioVerdict writes what was missed, and the last line.
func scenarioVerdict(w io.Writer, results []scenario.Result) {
	if slices.ContainsFunc(results, func(r scenario.Result) bool { return r.Interrupted }) {
		fmt.Fprintln(w, "INTERRUPTED: what was cut off is not judged.")
		return
	}
	missed := 0
	for _, r := range results {
		if len(r.Missed) > 0 {
			missed++
			fmt.Fprintf(w, "%s: %s\n", r.Scenario.Name, strings.Join(r.Missed, "; "))
		}
	}
	if missed > 0 {
		fmt.Fprintf(w, "\nFAILED: %d of %s missed a target.\n", missed, count(len(results), "scenario", "scenarios"))
		return
	}
	fmt.Fprintf(w, "OK: %s reached all targets.\n", count(len(results), "scenario", "scenarios"))
}

// describeScenario says what a scenario is about and what it has to reach.
func describeScenario(w io.Writer, s scenario.Scenario) {
	fmt.Fprintf(w, "%s: %s\nideal: %s\ntargets: %s\n\n", s.Name, s.About, s.IdealBy, strings.Join(s.Targets.List(), ", "))
}

// classes counts 429s by class, leaving out those that did not occur.
func classes(c discordsim.ByClass) string {
	var parts []string
	for _, class := range []struct {
		n    int
		name string
	}{{c.User, "user"}, {c.SubLimit, "sub-limit"}, {c.Shared, "shared"}, {c.Global, "global"}, {c.Edge, "edge"}} {
		if class.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", class.n, class.name))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// ScenarioList writes the names of scenarios and what they are about.
func ScenarioList(w io.Writer, scenarios []scenario.Scenario) {
	t := &table{columns: []string{"<scenario", "requests", "<what happens"}}
	for _, s := range scenarios {
		t.add(s.Name, number(s.Requests()), s.About)
	}
	t.write(w)
}

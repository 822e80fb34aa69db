package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// Verdict is whether a load was good enough, and why not.
type Verdict struct {
	Passed  bool     `json:"passed"`
	Reasons []string `json:"reasons"`
}

// Load writes the result of a load for people.
func Load(w io.Writer, config load.Config, result load.Result, verdict Verdict) {
	fmt.Fprintln(w, describe(config))
	fmt.Fprintln(w)
	measures(result).write(w)
	fmt.Fprintln(w)
	refusals(result).write(w)
	if !result.Judged {
		fmt.Fprintln(w, "Only the simulator can tell which of them could have been avoided.")
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, loadVerdict(result, verdict))
}

// describe says what was asked for. It contains neither the token nor the parameters of the path.
func describe(c load.Config) string {
	atOnce := "at once"
	if c.Concurrency > 0 {
		atOnce = fmt.Sprintf("%d at a time", c.Concurrency)
	}
	global := "no global limit"
	if c.GlobalLimit > 0 {
		global = fmt.Sprintf("at most %d per second in all", c.GlobalLimit)
	}
	requests := count(c.Requests, "request", "requests")
	if c.Real != nil {
		return fmt.Sprintf("%s, %s, to %s on %s\n%s; max rate limit %s",
			requests, atOnce, routeOf(c.Real), c.Real.Target, global, setting(c.MaxRateLimit))
	}
	s := c.Simulated
	return fmt.Sprintf("%s, %s, to %s of a simulated Discord on this machine\n%s; %s\nround trip %s ± %s; max rate limit %s; seed %d",
		requests, atOnce, count(s.Channels, "channel", "channels"), quota(s.Quota), global,
		setting(s.Latency.RoundTrip), setting(s.Latency.Jitter), setting(c.MaxRateLimit), s.Seed)
}

func routeOf(real *load.Real) string {
	compiled, err := routes.Match("GET", real.Path)
	if err != nil {
		return "GET"
	}
	return compiled.Route().String()
}

func quota(q discordsim.Quota) string {
	how := map[discordsim.Kind]string{
		discordsim.KindFixed:   "fixed window",
		discordsim.KindSliding: "sliding window",
		discordsim.KindLeaky:   "leaky bucket",
	}
	return fmt.Sprintf("%d per %s in each channel (%s)", q.Limit, setting(q.Period), how[q.Kind])
}

// measures lists what was measured, with a remark where a newcomer may want one.
func measures(r load.Result) *table {
	t := &table{columns: []string{"<", "", "<"}}
	t.add("answered", number(r.Answered), "of "+count(r.Requests, "request", "requests")+statuses(r))
	if r.RefusedEarly > 0 {
		t.add("refused early", number(r.RefusedEarly), "by the client: the predicted wait exceeds the max rate limit")
	}
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		t.add("failed", number(r.Errors[text]), text)
	}
	if n := r.GivenUp(); n > 0 {
		t.add("given up", number(n), "when interrupted")
	}
	t.add("", "", "")
	t.add("time taken", seconds(r.Took), "until the last answer")
	ideals(t, r)
	t.add("", "", "")
	queued := r.Reading.Queued
	t.add("queued, median", seconds(queued.Median), "held back by the client before each sending, round trips not counted")
	t.add("queued, 90 %", seconds(queued.P90), "so many were not held back longer")
	t.add("queued, 99 %", seconds(queued.P99), "")
	t.add("queued, longest", seconds(queued.Max), "")
	t.add("in flight, most", number(r.Reading.LargestInFlight), "requests under way at once")
	return t
}

func statuses(r load.Result) string {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(r.Statuses)) {
		parts = append(parts, fmt.Sprintf("%d with status %d", r.Statuses[status], status))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func ideals(t *table, r load.Result) {
	if r.Ideal.Missing != "" {
		t.add("ideal", "–", r.Ideal.Missing)
		return
	}
	t.add("certain ideal", seconds(r.Ideal.Certain), "efficiency "+part(r.Certain())+" against a client that must be sure before it sends")
	t.add("omniscient ideal", seconds(r.Ideal.Omniscient), "efficiency "+part(r.Omniscient())+" against a client that sees into the server")
}

// refusals is a column for each class of 429s.
func refusals(r load.Result) *table {
	t := &table{columns: []string{"<429s", "all", "user", "sub-limit", "shared", "global", "edge"}}
	line := func(name string, c discordsim.ByClass) {
		t.add(name, number(c.Total()), number(c.User), number(c.SubLimit), number(c.Shared), number(c.Global), number(c.Edge))
	}
	line("drawn", r.Refused)
	if r.Judged {
		line("avoidable", r.Avoidable)
	}
	return t
}

// loadVerdict is the last line.
func loadVerdict(r load.Result, verdict Verdict) string {
	switch {
	case r.Interrupted:
		return fmt.Sprintf("INTERRUPTED: %d of %s answered.", r.Answered, count(r.Requests, "request", "requests"))
	case !verdict.Passed:
		return "FAILED: " + strings.Join(verdict.Reasons, "; ") + "."
	}
	line := fmt.Sprintf("OK: %d of %s answered", r.Answered, count(r.Requests, "request", "requests"))
	if r.RefusedEarly > 0 {
		line += fmt.Sprintf(", %d refused early", r.RefusedEarly)
	}
	switch avoidable := r.Avoidable.Total(); {
	case !r.Judged:
		line += fmt.Sprintf(", 429s: %d", r.Refused.Total())
	case avoidable == 0:
		line += ", no avoidable 429"
	default:
		line += ", " + count(avoidable, "avoidable 429", "avoidable 429s")
	}
	if r.Certain() > 0 {
		line += fmt.Sprintf(", %s of the certain ideal", part(r.Certain()))
	}
	return line + "."
}

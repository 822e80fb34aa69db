package output

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/processes"
)

// Processes writes how well processes shared their limits for people: a table, what accidents cost, what was missed, and a verdict.
func Processes(w io.Writer, settings processes.Settings, results []processes.Result) {
	fmt.Fprintf(w, "%s\n\n", describeProcesses(settings))
	t := &table{columns: []string{
		"<scenario", "answered", "time", "certain", "429s", "inverted\npairs", "calls per request\nin all", "\n2nd half", "engine\ntime each",
		"queued\nmean", "\nideal", "\np50", "\np99", "<verdict",
	}}
	for _, r := range results {
		t.add(append(processesRow(r), processesVerdict(r))...)
	}
	t.write(w)
	fmt.Fprint(w, processesLegend)
	for _, r := range results {
		writeAccidents(w, r)
	}
	if slices.ContainsFunc(results, func(r processes.Result) bool { return len(r.Accidents) > 0 }) {
		fmt.Fprint(w, accidentsLegend)
	}
	for _, r := range results {
		if words := busy(r); words != "" {
			fmt.Fprintf(w, "%s: %s\n", r.Scenario.Name, words)
		}
	}
	processesEnd(w, results)
}

// busy says that a run was spoilt, if it was.
func busy(r processes.Result) string {
	if r.Stalled < processes.Busy {
		return ""
	}
	return fmt.Sprintf("this machine was too busy: the simulated Discord was once %s behind, so do not trust these figures", seconds(r.Stalled))
}

const processesLegend = `
certain            efficiency against one ideal client that must be sure before it sends, and does the work of all
inverted pairs     of pairs of requests that two processes made one after the other: how many changed places, from a bucket's second window on
calls per request  scripts that the engine ran for each request, in all and in the second half; and its own time for each request
queued             time from handing a request to a client until it was sent: mean, that of the ideal client, median, 99th percentile

`

func describeProcesses(s processes.Settings) string {
	limits, together := "5 per second", "each"
	if s.Disturb {
		limits, together = "5 per second or per 5 s", "for all"
	}
	return fmt.Sprintf("%s of this machine, limits of %s (fixed window), 10 to 40 ms each way; about %s %s; seed %d",
		count(s.Processes, "process", "processes"), limits, setting(s.Length), together, s.Seed)
}

// processesRow is a scenario in numbers, without its verdict.
func processesRow(r processes.Result) []string {
	all, late, each := "–", "–", "–"
	if r.Shared {
		a, l := r.CallsEach()
		all, late, each = perRequest(a), perRequest(l), micros(r.EngineEach())
	}
	inverted, ideal := "–", "–"
	if r.Pairs > 0 {
		inverted = percent(r.InvertedPart())
	}
	if r.Ideal.MeanWait > 0 {
		ideal = seconds(r.Ideal.MeanWait)
	}
	return []string{
		r.Scenario.Name, fmt.Sprintf("%d/%d", r.Answered, r.Requests), seconds(r.Took), part(r.Certain()), classes(r.Refused),
		inverted, all, late, each, seconds(r.MeanWait), ideal, seconds(r.Queued.Median), seconds(r.Queued.P99),
	}
}

func perRequest(x float64) string { return fmt.Sprintf("%.3f", x) }

func micros(d time.Duration) string {
	return fmt.Sprintf("%d µs", d.Round(time.Microsecond).Microseconds())
}

func processesVerdict(r processes.Result) string {
	switch {
	case r.Interrupted:
		return "cut off"
	case len(r.Missed) > 0:
		return "MISSED"
	case r.Scenario.Targets.Anything:
		return "–"
	case len(r.NotJudged()) > 0:
		return "short"
	}
	return "ok"
}

// writeAccidents writes what each accident of a scenario cost, and what happened in the seconds around it.
func writeAccidents(w io.Writer, r processes.Result) {
	if len(r.Accidents) == 0 {
		return
	}
	t := &table{columns: []string{"<" + r.Scenario.Name, "from", "to", "rate\nbefore", "requests\nlost", "rate\nback after", "each bucket\nserved after",
		"429s", "avoidable", "in\nbuckets", "errors", "<verdict"}}
	for _, a := range r.Accidents {
		t.add(append(accidentRow(r, a), accidentVerdict(r, a))...)
	}
	t.write(w)
	fmt.Fprint(w, "\nrequests in each second, from 2 s before; │ marks where it begins, and ends if it lasts\n")
	for _, a := range r.Accidents {
		fmt.Fprintf(w, "  %-54s  %s\n", a.Name, accidentSeconds(a))
	}
	fmt.Fprintln(w)
}

const accidentsLegend = `rate before        requests that came through per second in the 5 or 6 s before it
requests lost      how many fewer came through until the next accident than were made, or than at that rate where callers wait for answers
rate back after    time from its end until the rate was back
each bucket        how long requests waited after it (where it ended their process: after that) until their bucket served one again: the
served after       longest time of all buckets
429s               in all until the next accident; those that a client would have avoided that knew all; in how many buckets

`

func accidentRow(r processes.Result, a processes.Accident) []string {
	back := orNever(a.Back)
	if targets := r.Scenario.Targets; targets.BackWithin == 0 && !targets.Anything {
		back = "–" // it comes and goes with windows that long
	}
	until := "–"
	if a.Until > a.At {
		until = setting(a.Until)
	}
	return []string{
		a.Name, setting(a.At), until, fmt.Sprintf("%.1f/s", a.Before), fmt.Sprintf("%.0f", a.Lost), back, orNever(a.Served),
		number(a.Refused), number(a.Avoidable), number(a.RefusedBuckets), number(a.Errors),
	}
}

func orNever(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return seconds(d)
}

// accidentVerdict is that on one accident.
func accidentVerdict(r processes.Result, a processes.Accident) string {
	switch {
	case r.Interrupted || r.Scenario.Targets.Anything:
		return "–"
	case len(a.Missed) > 0:
		return "MISSED"
	}
	return "ok"
}

func accidentSeconds(a processes.Accident) string {
	begins := processes.Around
	ends := begins + int((a.Until-a.At)/time.Second)
	var b strings.Builder
	for i, n := range a.Seconds {
		if i == begins || i == ends && ends > begins {
			b.WriteString("│ ")
		}
		fmt.Fprintf(&b, "%d ", n)
	}
	return strings.TrimSpace(b.String())
}

// processesEnd writes what was missed, and the last line.
func processesEnd(w io.Writer, results []processes.Result) {
	if slices.ContainsFunc(results, func(r processes.Result) bool { return r.Interrupted }) {
		fmt.Fprintln(w, "INTERRUPTED: what was cut off is not judged.")
		return
	}
	missed, short := 0, 0
	for _, r := range results {
		if targets := r.NotJudged(); len(targets) > 0 {
			short++
			fmt.Fprintf(w, "%s: not judged, as that takes runs of %g s: %s\n", r.Scenario.Name, processes.ShortestJudged.Seconds(), strings.Join(targets, "; "))
		}
		if len(r.Missed) > 0 {
			missed++
			fmt.Fprintf(w, "%s: %s\n", r.Scenario.Name, strings.Join(r.Missed, "; "))
		}
	}
	if missed > 0 {
		fmt.Fprintf(w, "\nFAILED: %d of %s missed a target.\n", missed, count(len(results), "scenario", "scenarios"))
		return
	}
	if slices.ContainsFunc(results, func(r processes.Result) bool { return r.Scenario.Targets.Anything }) {
		fmt.Fprintln(w, "OK: this shows what the policy for outages costs, and nothing is judged.")
		return
	}
	if short > 0 {
		fmt.Fprintf(w, "\nOK: nothing was missed, but %d of %s %s too short to be judged by all targets.\n",
			short, count(len(results), "scenario", "scenarios"), map[bool]string{true: "was", false: "were"}[short == 1])
		return
	}
	fmt.Fprintf(w, "OK: %s reached all targets.\n", count(len(results), "scenario", "scenarios"))
}

// ProcessesList writes the names of scenarios for several processes and what they are about.
func ProcessesList(w io.Writer, settings processes.Settings, scenarios []processes.Scenario) {
	t := &table{columns: []string{"<scenario", "requests", "<what happens"}}
	for _, s := range scenarios {
		requests := number(s.Requests(settings))
		if s.Estimated() {
			requests = "about " + requests
		}
		t.add(s.Name, requests, s.About)
	}
	t.write(w)
}

// ProcessesListJSON writes the same as a JSON array.
func ProcessesListJSON(w io.Writer, settings processes.Settings, scenarios []processes.Scenario) error {
	type entry struct {
		Scenario string   `json:"scenario"`
		About    string   `json:"about"`
		Targets  []string `json:"targets"`
		Requests int      `json:"requests"`
		Estimate bool     `json:"requests_estimated"`
	}
	entries := make([]entry, 0, len(scenarios))
	for _, s := range scenarios {
		entries = append(entries, entry{s.Name, s.About, s.Targets.List(), s.Requests(settings), s.Estimated()})
	}
	return write(w, entries)
}

type processesDocument struct {
	Scenario      string             `json:"scenario"`
	About         string             `json:"about"`
	Targets       []string           `json:"targets"`
	Processes     int                `json:"processes"`
	Requests      int                `json:"requests"`
	Answered      int                `json:"answered"`
	Errors        map[string]int     `json:"errors"`
	Seconds       float64            `json:"seconds"`
	IdealSeconds  *float64           `json:"ideal_seconds"`
	Efficiency    *float64           `json:"efficiency"`
	Refused       byClass            `json:"refused"`
	Avoidable     byClass            `json:"avoidable"`
	Excused       byClass            `json:"excused"`
	Pairs         int                `json:"pairs"`
	Inverted      int                `json:"inverted"`
	Engine        *engineDocument    `json:"engine"`
	QueuedSeconds queued             `json:"queued_seconds"`
	MeanSeconds   float64            `json:"queued_mean_seconds"`
	Stalled       float64            `json:"simulator_behind_seconds"`
	IdealMean     *float64           `json:"ideal_queued_mean_seconds"`
	PerSecond     []secondDocument   `json:"per_second"`
	Accidents     []accidentDocument `json:"accidents"`
	Interrupted   bool               `json:"interrupted"`
	NotJudged     []string           `json:"not_judged"` // targets, as the run was too short for them
	Verdict       Verdict            `json:"verdict"`
}

// engineDocument is what the engine did, null where nothing is shared.
type engineDocument struct {
	Calls           int     `json:"calls"`
	CallsPerRequest float64 `json:"calls_per_request"`
	CallsLate       float64 `json:"calls_per_request_second_half"`
	SecondsInAll    float64 `json:"seconds"`
}

type secondDocument struct {
	Served  int      `json:"served"`
	Refused int      `json:"refused"`
	Errors  int      `json:"errors"`
	Calls   *float64 `json:"engine_calls"`
}

type accidentDocument struct {
	Name      string   `json:"accident"`
	From      float64  `json:"from"`
	To        float64  `json:"to"`
	Before    float64  `json:"rate_before"`
	Lost      float64  `json:"requests_lost"`
	Back      *float64 `json:"back_after"`
	Served    *float64 `json:"served_after"`
	Refused   int      `json:"refused"`
	Avoidable int      `json:"avoidable"`
	Buckets   int      `json:"refused_buckets"`
	Errors    int      `json:"errors"`
	PerSecond []int    `json:"per_second"` // from two seconds before
	Verdict   Verdict  `json:"verdict"`
}

// ProcessesJSON writes how well processes shared their limits as a JSON array.
func ProcessesJSON(w io.Writer, _ processes.Settings, results []processes.Result) error {
	documents := make([]processesDocument, 0, len(results))
	for _, r := range results {
		d := processesDocument{
			Scenario: r.Scenario.Name, About: r.Scenario.About, Targets: r.Scenario.Targets.List(), Processes: r.Processes,
			Requests: r.Requests, Answered: r.Answered, Errors: r.Errors, Seconds: inSeconds(r.Took),
			IdealSeconds: stated(r.Ideal.Took.Seconds()), Efficiency: stated(r.Certain()),
			Refused: newByClass(r.Refused), Avoidable: newByClass(r.Avoidable), Excused: newByClass(r.Excused),
			Pairs: r.Pairs, Inverted: r.Inverted,
			QueuedSeconds: newQueued(r.Queued), MeanSeconds: inSeconds(r.MeanWait), Stalled: inSeconds(r.Stalled), IdealMean: stated(r.Ideal.MeanWait.Seconds()),
			PerSecond: []secondDocument{}, Accidents: []accidentDocument{}, Interrupted: r.Interrupted, NotJudged: append([]string{}, r.NotJudged()...),
			Verdict: Verdict{Passed: len(r.Missed) == 0, Reasons: append([]string{}, r.Missed...)},
		}
		if r.Shared {
			all, late := r.CallsEach()
			d.Engine = &engineDocument{r.Calls.Calls, rounded(all), rounded(late), inSeconds(r.Calls.Took)}
		}
		for _, s := range r.Seconds {
			second := secondDocument{Served: s.Served, Refused: s.Refused, Errors: s.Errors}
			if !math.IsNaN(s.Calls) && r.Shared {
				calls := rounded(s.Calls)
				second.Calls = &calls
			}
			d.PerSecond = append(d.PerSecond, second)
		}
		for _, a := range r.Accidents {
			d.Accidents = append(d.Accidents, newAccidentDocument(a))
		}
		documents = append(documents, d)
	}
	return write(w, documents)
}

func newAccidentDocument(a processes.Accident) accidentDocument {
	d := accidentDocument{
		Name: a.Name, From: inSeconds(a.At), To: inSeconds(a.Until), Before: rounded(a.Before), Lost: rounded(a.Lost),
		Refused: a.Refused, Avoidable: a.Avoidable, Buckets: a.RefusedBuckets, Errors: a.Errors, PerSecond: a.Seconds,
		Verdict: Verdict{Passed: len(a.Missed) == 0, Reasons: append([]string{}, a.Missed...)},
	}
	for _, time := range []struct {
		taken time.Duration
		field **float64
	}{{a.Back, &d.Back}, {a.Served, &d.Served}} {
		if time.taken >= 0 {
			seconds := inSeconds(time.taken)
			*time.field = &seconds
		}
	}
	return d
}

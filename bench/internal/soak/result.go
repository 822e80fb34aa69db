package soak

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Result holds the measurements of a soak.
type Result struct {
	Options     Options
	Interrupted bool
	Took        time.Duration

	// Made counts the requests, Outcomes their outcomes by name. Longest is the longest time until an outcome.
	Made     int
	Longest  time.Duration
	Outcomes map[string]int
	// Unexpected counts outcomes that their requests should not have had, mostUnexpected kinds at most.
	Unexpected map[string]int
	Rounds     []Round
	// Left is what the manager still kept at the end.
	Left buckets.Stats
	// Goroutines has the numbers of goroutines before and after the soak.
	Goroutines [2]int

	// Broken lists the promises that failed.
	Broken []string
}

// Round is one round: what its server saw, and what was left when its requests had ended.
type Round struct {
	number int
	length time.Duration

	Kind               string
	Refused, Avoidable discordsim.ByClass
	// Invalid counts the responses of 401, 403 and 429, Bans the bans for too many of them.
	Invalid, Bans int

	Stats      buckets.Stats
	Heap       uint64 // in use after a garbage collection, in bytes
	Goroutines int
}

// judge fills in Broken.
func (r *Result) judge() {
	broken := func(when bool, format string, values ...any) {
		if when {
			r.Broken = append(r.Broken, fmt.Sprintf(format, values...))
		}
	}
	outcomes := 0
	for _, n := range r.Outcomes {
		outcomes += n
	}
	broken(r.Made != outcomes, "%d requests have %d outcomes", r.Made, outcomes)
	broken(r.Longest > patience, "a request had its outcome after %v, at most %v wanted", r.Longest, patience)
	for _, what := range slices.Sorted(maps.Keys(r.Unexpected)) {
		broken(true, "%d times %s", r.Unexpected[what], what)
	}
	refused, invalid := 0, 0
	for i, round := range r.Rounds {
		s := round.Stats
		broken(s.Waiting+s.InFlight > 0, "after round %d, %d requests waited and %d were in flight", i+1, s.Waiting, s.InFlight)
		avoidable := report.ByClass(round.Avoidable)
		broken(round.Kind == undisturbed && round.Avoidable.Total() > 0, "avoidable 429s in round %d, which was undisturbed: %v", i+1, avoidable)
		broken(round.Bans > 0, "%d bans for invalid requests in round %d", round.Bans, i+1)
		refused += round.Refused.Total()
		invalid += round.Invalid
	}
	broken(invalid == 0 || refused == 0, "the server refused nothing: this was no soak")
	routes, authentications := 150, 10 // in real time the soak does not wait until all are forgotten
	if r.Options.witness != nil {
		routes, authentications = 0, 0
	}
	l := r.Left
	broken(l.Waiting+l.InFlight > 0, "in the end %d requests wait and %d are in flight", l.Waiting, l.InFlight)
	broken(l.Buckets > 0 || l.Routes > routes || l.Authentications > authentications,
		"in the end %d buckets, %d routes and %d authentications are left", l.Buckets, l.Routes, l.Authentications)
	broken(r.Goroutines[1] > r.Goroutines[0], "%d goroutines became %d", r.Goroutines[0], r.Goroutines[1])
	if middle, last := r.heaps(); last > 0 {
		first, end := r.Rounds[0].Heap, r.Rounds[len(r.Rounds)-1].Heap
		broken(last > middle+middle/10+heapSlack, "the heap grew from %v in the second third to %v in the last", report.Bytes(middle), report.Bytes(last))
		broken(end > first+first/4+2*heapSlack, "the heap grew from %v after the warm-up to %v", report.Bytes(first), report.Bytes(end))
	}
}

// heapSlack is how many bytes the heap may grow from one third of the soak to the next. Maps, pools and the runtime
// keep memory for reuse. In a soak of a day that is 5 bytes for each request of a third.
const heapSlack = 2 << 20

// heaps returns the mean heap of the second and the last third in bytes, or zeros after fewer than three rounds.
func (r *Result) heaps() (middle, last uint64) {
	n := len(r.Rounds)
	if n < 3 {
		return 0, 0
	}
	mean := func(rounds []Round) (sum uint64) {
		for _, round := range rounds {
			sum += round.Heap
		}
		return sum / uint64(len(rounds))
	}
	return mean(r.Rounds[n/3 : 2*n/3]), mean(r.Rounds[2*n/3:])
}

// Report returns the result as a report.
func (r *Result) Report() *report.Report {
	o := r.Options
	middle, last := r.heaps()
	document := &report.Report{
		Title: "Soak", About: []string{fmt.Sprintf("%d requests a minute for %v, seed %d", Rate, o.Length, o.Seed)},
		Verdict: report.Judge("all promises were kept", r.Broken...),
		Facts: []report.Fact{
			{Name: "requests", Key: "requests", Value: report.Count(r.Made), Main: true},
			{Name: "time taken", Key: "seconds", Value: report.Time(r.Took), Main: true},
			{Name: "slowest request", Key: "slowest_seconds", Value: report.Time(r.Longest)},
			{Name: "heap", Key: "heap_bytes", Value: report.Bytes(last), Main: true, Remark: fmt.Sprintf("at last, %v before", report.Bytes(middle))},
			{Name: "goroutines", Key: "goroutines", Value: report.Count(r.Goroutines[1]), Remark: fmt.Sprintf("%d before", r.Goroutines[0])},
		},
	}
	outcomes := report.Table{Title: "Outcomes", Key: "outcomes", Columns: []report.Column{
		{Name: "requests", Key: "requests"}, {Name: "outcome", Key: "outcome", Left: true},
	}}
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		outcomes.Rows = append(outcomes.Rows, []report.Value{report.Count(r.Outcomes[outcome]), report.Text(outcome)})
	}
	rounds := report.Table{Title: "Rounds", Key: "rounds", Columns: []report.Column{
		{Name: "round"}, {Name: "kind", Key: "kind", Left: true}, {Name: "429s", Key: "refused"}, {Name: "avoidable", Key: "avoidable"},
		{Name: "invalid", Key: "invalid", Note: fmt.Sprintf("responses 401, 403 and 429; %d are allowed within %v", o.budget(), o.budgetPeriod())},
		{Name: "bans", Key: "bans"}, {Name: "heap", Key: "heap_bytes", Note: "this and the following: afterwards, at rest"},
		{Name: "goroutines", Key: "goroutines"}, {Name: "routes", Key: "routes"}, {Name: "authentications", Key: "authentications"},
		{Name: "buckets", Key: "buckets", Note: "that are known"},
	}}
	end := Round{Kind: "at the end", Stats: r.Left, Heap: last, Goroutines: r.Goroutines[1]}
	for i, round := range append(slices.Clone(r.Rounds), end) {
		rounds.Rows = append(rounds.Rows, []report.Value{
			report.Count(i + 1), report.Text(round.Kind), report.ByClass(round.Refused), report.ByClass(round.Avoidable), report.Count(round.Invalid),
			report.Count(round.Bans), report.Bytes(round.Heap), report.Count(round.Goroutines),
			report.Count(round.Stats.Routes), report.Count(round.Stats.Authentications), report.Count(round.Stats.Buckets),
		})
	}
	document.Tables = []report.Table{outcomes, rounds}
	if r.Interrupted {
		document.Verdict = report.Verdict{Status: report.Interrupted, Line: "what was cut off is not judged"}
	}
	return document
}

package scenario

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// Result is what happened in a scenario.
type Result struct {
	Scenario Scenario
	Requests int
	Answered int
	Errors   map[string]int // why the others were not answered
	// Took is the time from the first request's being made until the last one was answered.
	Took  time.Duration
	Ideal Ideal
	// The server's view of refusals. Those that are neither avoidable nor excused could not be foreseen.
	Refused, Avoidable, Excused discordsim.ByClass
	Inversions                  int // requests that were overtaken in their bucket
	LargestInFlight             int
	Queued                      meter.Queued
	Interrupted                 bool
	// Missed says which targets were missed and by how much. Empty: all were reached.
	Missed []string
}

// Unanswered is the number of requests without a successful outcome.
func (r *Result) Unanswered() int { return r.Requests - r.Answered }

// Certain is the efficiency against the certain ideal, 0 if none is stated.
func (r *Result) Certain() float64 { return r.efficiency(r.Ideal.Certain) }

// Omniscient is the efficiency against the omniscient ideal, 0 if none is stated.
func (r *Result) Omniscient() float64 { return r.efficiency(r.Ideal.Omniscient) }

// efficiency says nothing about a run that did not do all the work.
func (r *Result) efficiency(ideal time.Duration) float64 {
	if r.Took == 0 || r.Unanswered() > 0 {
		return 0
	}
	return ideal.Seconds() / r.Took.Seconds()
}

// observe takes over what was measured on both sides.
func (r *Result) observe(report discordsim.Report, reading meter.Reading) {
	r.Refused, r.Avoidable, r.Excused = report.Refused, report.Avoidable, report.Excused
	r.Inversions = report.Inversions
	r.LargestInFlight = reading.LargestInFlight
	r.Queued = reading.Queued
}

// judge compares the result with the targets.
func (r *Result) judge() {
	targets := r.Scenario.Targets
	miss := func(missed bool, format string, values ...any) {
		if missed {
			r.Missed = append(r.Missed, fmt.Sprintf(format, values...))
		}
	}
	if r.Interrupted {
		miss(true, "interrupted")
		return
	}
	miss(r.Unanswered() > 0, "not answered: %d of %d requests", r.Unanswered(), r.Requests)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		miss(true, "%d ended with: %s", r.Errors[text], text)
	}
	if r.Unanswered() == 0 {
		miss(r.Certain() < targets.Certain, "%.4f of the certain ideal, at least %.2f wanted", r.Certain(), targets.Certain)
		miss(r.Omniscient() < targets.Omniscient, "%.4f of the omniscient ideal, at least %.2f wanted", r.Omniscient(), targets.Omniscient)
	}
	miss(r.Avoidable.Total() > 0, "avoidable 429s: %d, none wanted", r.Avoidable.Total())
	miss(targets.P99 > 0 && r.Queued.P99 > targets.P99, "queued for %v (99th percentile), at most %v wanted", r.Queued.P99.Round(time.Millisecond), targets.P99)
	miss(targets.InOrder && r.Inversions > 0, "overtaken requests: %d, none wanted", r.Inversions)
}

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// seconds is a time that is a number of seconds in JSON.
type seconds time.Duration

func (s seconds) Seconds() float64 { return time.Duration(s).Seconds() }

// MarshalJSON leaves out digits that mean nothing.
func (s seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(s).Microseconds()) / 1e6)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *seconds) UnmarshalJSON(text []byte) error {
	var number float64
	err := json.Unmarshal(text, &number)
	*s = seconds(number * float64(time.Second))
	return err
}

// result is what became of a scenario with one contender.
type result struct {
	Scenario  string `json:"scenario"`
	Contender string `json:"contender"`
	Calls     int    `json:"calls"`
	GivenUp   int    `json:"given_up"` // calls that were given up by their callers, which have no other outcome
	OK        int    `json:"ok"`
	Failed    int    `json:"failed"`
	// NeverEnded calls had not returned when the run was over.
	NeverEnded int `json:"never_ended"`
	// Error is that of the first call that failed.
	Error string `json:"error,omitempty"`
	// Took is the time until the last call succeeded.
	Took  seconds `json:"seconds"`
	Ideal seconds `json:"ideal_seconds"`
	// Efficiency is the ideal's part of the time, 0 if not everything was done.
	Efficiency float64 `json:"efficiency"`
	// Late is how long a call went on at most after it had been given up.
	Late seconds `json:"late_seconds"`
	// Refused and Avoidable count 429s by their class. Avoidable are those that what had been told would have prevented.
	Refused         map[string]int `json:"refused"`
	Avoidable       map[string]int `json:"avoidable"`
	QueuedMedian    seconds        `json:"queued_median_seconds"`
	QueuedP99       seconds        `json:"queued_p99_seconds"`
	LargestInFlight int            `json:"largest_in_flight"`
	// Note is what else there is to say: that the process crashed, or had to be killed.
	Note string `json:"note,omitempty"`
}

func newResult(by contender, s scenario, ideal time.Duration) result {
	r := result{Scenario: s.name, Contender: by.name, Calls: len(s.calls), Ideal: seconds(ideal)}
	for _, c := range s.calls {
		if c.end != waits {
			r.GivenUp++
		}
	}
	return r
}

// fail counts a call that failed.
func (r *result) fail(err error) {
	if r.Failed == 0 {
		r.Error = err.Error()
	}
	r.Failed++
}

// observe takes over what was measured on both sides.
func (r *result) observe(report discordsim.Report, reading load.Reading) {
	r.Refused, r.Avoidable = byClass(report.Refused), byClass(report.Avoidable)
	r.QueuedMedian, r.QueuedP99 = seconds(reading.Queued.Median), seconds(reading.Queued.P99)
	r.LargestInFlight = report.MaxInFlight
	if r.complete() && r.Took > 0 {
		r.Efficiency = r.Ideal.Seconds() / r.Took.Seconds()
	}
}

// complete: everything was done that was not given up.
func (r *result) complete() bool { return r.OK == r.Calls-r.GivenUp }

// classes are the names of the classes of 429s, in the order in which they are shown.
var classes = []string{"user", "sub-limit", "shared", "global", "edge"}

func byClass(c discordsim.ByClass) map[string]int {
	counts := make(map[string]int)
	for i, n := range []int{c.User, c.SubLimit, c.Shared, c.Global, c.Edge} {
		if n > 0 {
			counts[classes[i]] = n
		}
	}
	return counts
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// listed are counts by their class, such as "3 user, 40 global".
func listed(counts map[string]int) string {
	var parts []string
	for _, class := range classes {
		if n := counts[class]; n > 0 {
			parts = append(parts, fmt.Sprint(n, " ", class))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

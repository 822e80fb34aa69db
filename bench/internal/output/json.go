package output

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/ratelight/ratelight/bench/internal/load"
	"github.com/ratelight/ratelight/bench/internal/meter"
	"github.com/ratelight/ratelight/bench/internal/scenario"
	"github.com/ratelight/ratelight/internal/discordsim"
)

// The forms of the JSON documents. Times are numbers of seconds; what is not stated is null.

type byClass struct {
	All      int `json:"all"`
	User     int `json:"user"`
	SubLimit int `json:"sub_limit"`
	Shared   int `json:"shared"`
	Global   int `json:"global"`
	Edge     int `json:"edge"`
}

func newByClass(c discordsim.ByClass) byClass {
	return byClass{c.Total(), c.User, c.SubLimit, c.Shared, c.Global, c.Edge}
}

type queued struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

func newQueued(q meter.Queued) queued {
	return queued{inSeconds(q.Median), inSeconds(q.P90), inSeconds(q.P99), inSeconds(q.Max)}
}

// inSeconds leaves out digits that mean nothing.
func inSeconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// idealNumbers are seconds, or parts of the ideal.
type idealNumbers struct {
	Certain    *float64 `json:"certain"`
	Omniscient *float64 `json:"omniscient"`
}

func newIdealNumbers(certain, omniscient float64) idealNumbers {
	return idealNumbers{stated(certain), stated(omniscient)}
}

// stated rounds a number to six digits; zero means that it is not stated.
func stated(x float64) *float64 {
	if x == 0 {
		return nil
	}
	x = rounded(x)
	return &x
}

func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

type loadDocument struct {
	Target          string         `json:"target"` // scheme and host, or "simulator"
	Requests        int            `json:"requests"`
	Answered        int            `json:"answered"`
	RefusedEarly    int            `json:"refused_early"`
	GivenUp         int            `json:"given_up"`
	Statuses        map[int]int    `json:"statuses"`
	Errors          map[string]int `json:"errors"`
	Seconds         float64        `json:"seconds"`
	IdealSeconds    idealNumbers   `json:"ideal_seconds"`
	Efficiency      idealNumbers   `json:"efficiency"`
	Refused         byClass        `json:"refused"`
	Avoidable       *byClass       `json:"avoidable"`
	QueuedSeconds   queued         `json:"queued_seconds"`
	LargestInFlight int            `json:"largest_in_flight"`
	Interrupted     bool           `json:"interrupted"`
	Verdict         Verdict        `json:"verdict"`
}

// LoadJSON writes the result of a load as one JSON object.
func LoadJSON(w io.Writer, config load.Config, r load.Result, verdict Verdict) error {
	document := loadDocument{
		Target: "simulator", Requests: r.Requests, Answered: r.Answered,
		RefusedEarly: r.RefusedEarly, GivenUp: r.GivenUp(), Statuses: r.Statuses, Errors: r.Errors,
		Seconds:       inSeconds(r.Took),
		IdealSeconds:  newIdealNumbers(r.Ideal.Certain.Seconds(), r.Ideal.Omniscient.Seconds()),
		Efficiency:    newIdealNumbers(r.Certain(), r.Omniscient()),
		Refused:       newByClass(r.Refused),
		QueuedSeconds: newQueued(r.Reading.Queued), LargestInFlight: r.Reading.LargestInFlight,
		Interrupted: r.Interrupted, Verdict: verdict,
	}
	if config.Real != nil {
		document.Target = config.Real.Target.String()
	}
	if r.Judged {
		avoidable := newByClass(r.Avoidable)
		document.Avoidable = &avoidable
	}
	return write(w, document)
}

type scenarioDocument struct {
	Scenario        string         `json:"scenario"`
	About           string         `json:"about"`
	IdealBy         string         `json:"ideal_by"`
	Targets         []string       `json:"targets"`
	Requests        int            `json:"requests"`
	Answered        int            `json:"answered"`
	Errors          map[string]int `json:"errors"`
	Seconds         float64        `json:"seconds"`
	IdealSeconds    idealNumbers   `json:"ideal_seconds"`
	Efficiency      idealNumbers   `json:"efficiency"`
	Refused         byClass        `json:"refused"`
	Avoidable       byClass        `json:"avoidable"`
	Excused         byClass        `json:"excused"`
	QueuedSeconds   queued         `json:"queued_seconds"`
	LargestInFlight int            `json:"largest_in_flight"`
	Overtaken       int            `json:"overtaken"`
	Interrupted     bool           `json:"interrupted"`
	Verdict         Verdict        `json:"verdict"`
}

// ScenariosJSON writes the results of scenarios as a JSON array.
func ScenariosJSON(w io.Writer, results []scenario.Result) error {
	documents := make([]scenarioDocument, 0, len(results))
	for _, r := range results {
		documents = append(documents, scenarioDocument{
			Scenario: r.Scenario.Name, About: r.Scenario.About, IdealBy: r.Scenario.IdealBy, Targets: r.Scenario.Targets.List(),
			Requests: r.Requests, Answered: r.Answered, Errors: r.Errors,
			Seconds:      inSeconds(r.Took),
			IdealSeconds: newIdealNumbers(r.Ideal.Certain.Seconds(), r.Ideal.Omniscient.Seconds()),
			Efficiency:   newIdealNumbers(r.Certain(), r.Omniscient()),
			Refused:      newByClass(r.Refused), Avoidable: newByClass(r.Avoidable), Excused: newByClass(r.Excused),
			QueuedSeconds: newQueued(r.Queued), LargestInFlight: r.LargestInFlight,
			Overtaken: r.Inversions, Interrupted: r.Interrupted,
			Verdict: Verdict{Passed: len(r.Missed) == 0, Reasons: append([]string{}, r.Missed...)},
		})
	}
	return write(w, documents)
}

// ScenarioListJSON writes the names of scenarios and what they are about as a JSON array.
func ScenarioListJSON(w io.Writer, scenarios []scenario.Scenario) error {
	type entry struct {
		Scenario string   `json:"scenario"`
		About    string   `json:"about"`
		IdealBy  string   `json:"ideal_by"`
		Targets  []string `json:"targets"`
		Requests int      `json:"requests"`
	}
	entries := make([]entry, 0, len(scenarios))
	for _, s := range scenarios {
		entries = append(entries, entry{s.Name, s.About, s.IdealBy, s.Targets.List(), s.Requests()})
	}
	return write(w, entries)
}

func write(w io.Writer, document any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// Package report shows what the benchmark measured: as text in a terminal, as JSON for programs, and as a page for browsers. All three
// are made from one [Report], so that a measurement is described once, by the package that made it:
//
//	func (r Result) Report() *report.Report {
//		return &report.Report{
//			Title:   "500 requests to 10 simulated channels",
//			About:   []string{"500 requests at once; 5 per second in each channel"},
//			Verdict: report.Verdict{Status: report.Passed, Line: "500 of 500 requests answered"},
//			Facts: []report.Fact{
//				{Name: "answered", Key: "answered", Value: report.Count(r.Answered), Remark: "of 500 requests", Main: true},
//				{Name: "time taken", Key: "seconds", Value: report.Time(r.Took), Remark: "until the last answer", Main: true},
//				{Name: "queued, median", Key: "queued_seconds.median", Value: report.Time(r.Queued.Median)},
//				{Key: "errors", Value: report.Data(r.Errors)}, // only in JSON, as it has no name
//			},
//			Log: r.Log,
//		}
//	}
//
// A run of several scenarios is a report whose Parts are those of the scenarios, each with a Name. Facts of parts that have a Column make
// up the overview, a row for each part. [Together] is the verdict on all.
//
// A report contains no credentials, and what shows it adds none.
package report

import (
	"fmt"
	"strings"
)

// Report is what came of a run. Everything in it may be left out.
type Report struct {
	// Name is that of a scenario: the field "scenario" in JSON. Only parts have one.
	Name  string
	Title string   // of the page
	About []string // what was asked for, in lines; in JSON the field "about" if there is a name
	// Verdict is judged by the package that measured.
	Verdict Verdict
	Facts   []Fact
	Tables  []Table
	Charts  []Chart // only on the page
	Notes   []string
	// Log is what happened, request by request; the page draws it. nil: nothing was recorded.
	Log *Log
	// Parts make the JSON an array of theirs; Tables and Facts of the whole are not in it then.
	Parts []*Report
}

// Status is how a run ended.
type Status string

// The ways in which a run may end. Without any, nothing was to be judged, as in a list.
const (
	Passed      Status = "passed"
	NotJudged   Status = "not-judged" // it shows something, or was too short; that is no failure
	Failed      Status = "failed"
	Stalled     Status = "stalled" // the machine was too busy for figures that mean something; that is no success
	Interrupted Status = "interrupted"
)

// Verdict is the outcome in a line, and why it is not better.
type Verdict struct {
	Status Status
	// Line is a sentence, the first letter small, without the full stop. Without a line, the reasons stand in its place.
	Line    string
	Reasons []string
}

// Judge passes a run unless there is a reason against it.
func Judge(line string, reasons ...string) Verdict {
	if len(reasons) > 0 {
		return Verdict{Status: Failed, Reasons: reasons}
	}
	return Verdict{Status: Passed, Line: line}
}

// Good reports that it is no reason for a program to fail.
func (v Verdict) Good() bool { return v.Status == Passed || v.Status == NotJudged || v.Status == "" }

// Together is the verdict on all parts: that of the worst, and how many are like it.
func Together(parts []*Report) Verdict {
	all := Counted(len(parts), "scenario")
	reasons := make(map[Status][]string)
	for _, part := range parts {
		status, reason := part.Verdict.Status, part.Verdict.text()
		if missed := part.Verdict.Reasons; status == Stalled && len(missed) > 0 {
			reason = strings.Join(missed, "; ")
		}
		reasons[status] = append(reasons[status], part.Name+": "+reason)
	}
	switch n := func(s Status) int { return len(reasons[s]) }; {
	case n(Interrupted) > 0 && n(Failed) > 0:
		line := fmt.Sprintf("%d of %s had missed a target before; what was cut off is not judged", n(Failed), all)
		return Verdict{Interrupted, line, append(reasons[Failed], reasons[Interrupted]...)}
	case n(Interrupted) > 0:
		return Verdict{Interrupted, "what was cut off is not judged", reasons[Interrupted]}
	case n(Failed) > 0:
		return Verdict{Failed, fmt.Sprintf("%d of %s missed a target", n(Failed), all), reasons[Failed]}
	case n(Stalled) > 0:
		line := fmt.Sprintf("this machine stalled during %d of %s; run again when it has less to do", n(Stalled), all)
		return Verdict{Stalled, line, reasons[Stalled]}
	case n(NotJudged) > 0:
		line := fmt.Sprintf("nothing was missed, but %d of %s cannot be judged by all targets", n(NotJudged), all)
		return Verdict{NotJudged, line, reasons[NotJudged]}
	}
	return Verdict{Status: Passed, Line: all + " reached all targets"}
}

// text is the verdict without its status.
func (v Verdict) text() string {
	if v.Line != "" {
		return v.Line
	}
	return strings.Join(v.Reasons, "; ")
}

// Demand is what the caller asks of a run, on top of its own targets, as flags.
type Demand struct {
	No429s        bool    `name:"fail-on-429" group:"Output and verdict" help:"Exit with status 1 if any request was answered with 429, avoidable or not."`
	MinEfficiency float64 `group:"Output and verdict" placeholder:"FRACTION" range:"0.000001..1" help:"Exit with status 1 below this fraction of the certain ideal, such as 0.97."`
}

// Missed says what a run did not reach. An efficiency of 0 is not stated, and not asked for.
func (d Demand) Missed(refused int, efficiency float64) (reasons []string) {
	if d.No429s && refused > 0 {
		reasons = append(reasons, fmt.Sprintf("%d 429s, and -fail-on-429 wants none", refused))
	}
	if efficiency > 0 && efficiency < d.MinEfficiency {
		reasons = append(reasons, fmt.Sprintf("%.4f of the certain ideal, and -min-efficiency wants %g", efficiency, d.MinEfficiency))
	}
	return reasons
}

// Fact is a name with a value, and a remark where it needs one. Facts with one name are told apart by their remarks.
type Fact struct {
	Name   string // "": it is only in JSON
	Value  Value
	Remark string
	// Key is the field in JSON, as "seconds", or as "queued_seconds.median" within another one. "": it is not in JSON.
	Key string
	// Main facts are what a person asks first: they stand on top of the page in large letters.
	Main bool
	// Column is the fact's heading in the overview of all parts, in several lines if it has line breaks. "": it is not there.
	Column string
	// Note explains the column once, below the overview.
	Note string
}

// Table is rows of values, below the facts. Without a title it is only in JSON.
type Table struct {
	Title   string
	Key     string // in JSON an array of objects; "": it is not there
	Columns []Column
	Rows    [][]Value
	Marked  int // the number of a row to point at, counted from 1; 0: none
	Mark    string
}

// Column is one column of a table.
type Column struct {
	Name string // several lines if it has line breaks; "": it is only in JSON
	Key  string // the field in JSON, or one within another as with a fact; "": it is not there
	Note string // explains the column once, below the table
	Left bool   // text is aligned to the left
}

// Chart is lines over one axis.
type Chart struct {
	Title   string `json:"-"`
	Summary string `json:"-"` // the picture in words
	X       Axis   `json:"x"`
	Y       Axis   `json:"y"`
	// Names stand on the X axis at 0, 1, 2, … in place of numbers. Marked is one of them, counted from 1, that stands out; 0: none.
	Names  []string `json:"names,omitempty"`
	Marked int      `json:"marked,omitempty"`
	Series []Series `json:"series,omitempty"` // four at most; without any the chart is left out
	Events []Event  `json:"events,omitempty"`
	// Run: X is the time since the start of the run in the report's Log; such charts share their cursor and zoom.
	Run bool `json:"-"`
}

// Axis is what a chart's axis shows.
type Axis struct {
	Label string `json:"label"`
	Unit  string `json:"unit"` // "s", "%"; "": a number of something
}

// Series is a line. Points that are not finite are left out.
type Series struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"` // in the order of X
	Step   bool    `json:"step"`   // the value of a point holds until the next one
}

// Point is a place in a chart.
type Point struct{ X, Y float64 }

// Event is a time that is shaded in a chart; a line if it does not last. What stands before a colon in its name is the short one.
type Event struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Name string  `json:"name"`
}

// Counted is a number of things, as "1 bucket" and "2 buckets".
func Counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

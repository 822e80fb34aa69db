// Package report shows what the benchmark measured: as text in a terminal, as JSON for programs, and as a page for
// browsers. All three are made from one [Report], so the package that measured describes the result once.
//
// A run of several scenarios is a report with a part for each scenario. The overview has a row for each part, with the
// part's facts that have a Column. [Together] returns the verdict on all parts.
//
// A report contains no credentials, and the code that shows it adds none.
package report

import (
	"fmt"
	"strings"
)

// Report describes the result of a run. All fields are optional.
type Report struct {
	// Name is the name of a scenario, the field "scenario" in JSON. Only parts have one.
	Name  string
	Title string   // of the page
	About []string // what was requested, in lines; in JSON the field "about" if there is a name
	// Verdict comes from the package that measured.
	Verdict Verdict
	Facts   []Fact
	Tables  []Table
	Charts  []Chart // only on the page
	// Parts are the reports of scenarios. If there are parts, the JSON is an array of them, without Facts and Tables of
	// the whole report.
	Parts []*Report
}

// Status is how a run ended.
type Status string

// The ways in which a run may end.
const (
	Passed      Status = "passed"
	NotJudged   Status = "not-judged" // the run needs no verdict, or was too short; this is not a failure
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

// Verdict is the outcome of a run in a line, with the reasons for the outcome.
type Verdict struct {
	Status Status
	// Line is a sentence that begins with a small letter and has no full stop. If Line is empty, the reasons are shown
	// instead.
	Line    string
	Reasons []string
}

// Judge returns a passed verdict with the line, or a failed one if there are reasons.
func Judge(line string, reasons ...string) Verdict {
	if len(reasons) > 0 {
		return Verdict{Status: Failed, Reasons: reasons}
	}
	return Verdict{Status: Passed, Line: line}
}

// Good reports whether the program may end with success.
func (v Verdict) Good() bool { return v.Status == Passed || v.Status == NotJudged }

// Together returns the verdict on all parts: the worst status, and how many parts have it.
func Together(parts []*Report) Verdict {
	all := Counted(len(parts), "scenario")
	reasons := make(map[Status][]string)
	for _, part := range parts {
		status := part.Verdict.Status
		reasons[status] = append(reasons[status], part.Name+": "+part.Verdict.text())
	}
	switch n := func(s Status) int { return len(reasons[s]) }; {
	case n(Interrupted) > 0:
		return Verdict{Interrupted, "what was cut off is not judged", append(reasons[Failed], reasons[Interrupted]...)}
	case n(Failed) > 0:
		return Verdict{Failed, fmt.Sprintf("%d of %s missed a target", n(Failed), all), reasons[Failed]}
	case n(NotJudged) > 0:
		line := fmt.Sprintf("nothing was missed, but %d of %s cannot be judged by all targets", n(NotJudged), all)
		return Verdict{NotJudged, line, reasons[NotJudged]}
	}
	return Verdict{Status: Passed, Line: all + " reached all targets"}
}

// Word returns the status in capital letters.
func (v Verdict) Word() string {
	if v.Status == Passed {
		return "OK"
	}
	return strings.ToUpper(strings.ReplaceAll(string(v.Status), "-", " "))
}

// cell returns the verdict as a cell of a table.
func (v Verdict) cell() Value {
	return Value{Text: map[Status]string{
		Passed: "ok", Failed: "MISSED", NotJudged: "not judged", Interrupted: "cut off",
	}[v.Status]}
}

// text returns the verdict without its status.
func (v Verdict) text() string {
	if v.Line != "" {
		return v.Line
	}
	return strings.Join(v.Reasons, "; ")
}

// Fact is a name with a value and an optional remark. Remarks distinguish facts of the same name.
type Fact struct {
	Name   string // "": the fact is only in JSON
	Value  Value
	Remark string
	// Key is the field in JSON, such as "seconds", or "queued_seconds.median" in a nested object. "": not in JSON.
	Key string
	// Main marks the most important facts. They stand on top of the page in large letters.
	Main bool
	// Column is the fact's heading in the overview of all parts, where line breaks are kept. "": not in the overview.
	Column string
	// Note explains the column once, below the overview.
	Note string
}

// Table has rows of values, shown below the facts. Without a title it is only in JSON.
type Table struct {
	Title   string
	Key     string // the field in JSON, an array of objects; "": not in JSON
	Columns []Column
	Rows    [][]Value
	Marked  int // number of the row to mark, counted from 1; 0: none
	Mark    string
}

// Column is one column of a table.
type Column struct {
	Name string // line breaks are kept; "": the column is only in JSON
	Key  string // the field in JSON, as in a fact; "": not in JSON
	Note string // explains the column once, below the table
	Left bool   // text is aligned to the left
}

// Counted returns a count with its noun, such as "1 bucket" or "2 buckets".
func Counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

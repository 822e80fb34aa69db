package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// writePart writes one scenario's results.
func writePart(out io.Writer, part scenarioPart) {
	fmt.Fprintf(out, "%s: %s; %d calls, ideal %.2f s\n\n", part.Scenario, part.About, part.Calls, part.Ideal.Seconds())
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "contender\tcalls ok\tof the ideal\tseconds\t429s\tavoidable\tqueued p50\tp99\tin flight\tremarks")
	for _, r := range part.Results {
		fmt.Fprintf(columns, "%s\t%d/%d\t%s\t%.2f\t%s\t%s\t%.2f\t%.2f\t%d\t%s\n", r.Contender, r.OK, r.Calls-r.GivenUp,
			efficiency(r), r.Took.Seconds(), listed(r.Refused), listed(r.Avoidable), r.QueuedMedian.Seconds(), r.QueuedP99.Seconds(),
			r.LargestInFlight, remarks(r))
	}
	_ = columns.Flush() // the writer below is told of errors as well
	fmt.Fprintln(out)
}

func efficiency(r result) string {
	if r.Efficiency == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3f", r.Efficiency)
}

// noticeable is how late a call that is given up may end without a remark.
const noticeable = seconds(200 * time.Millisecond)

// remarks say what went wrong.
func remarks(r result) string {
	var list []string
	say := func(when bool, format string, values ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	say(r.Note != "", "%s", r.Note)
	say(r.NeverEnded > 0, "%d never ended", r.NeverEnded)
	say(r.Failed > 0, "%d failed: %s", r.Failed, shortened(r.Error, 80))
	say(r.Late > noticeable, "given-up calls end up to %.1f s late", r.Late.Seconds())
	return strings.Join(list, "; ")
}

// shortened is the beginning of the first line of a text.
func shortened(text string, length int) string {
	runes := []rune(firstLine(text))
	if len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return string(runes)
}

// writeSummary writes all results as one Markdown table: the part of the ideal, and 429s.
func writeSummary(out io.Writer, all document) {
	if len(all.Scenarios) == 0 {
		return
	}
	head, rule := "| |", "|---|"
	for _, part := range all.Scenarios {
		head += " " + part.Scenario + " |"
		rule += "---|"
	}
	fmt.Fprintf(out, "%s 429s in all |\n%s---|\n", head, rule)
	for i, r := range all.Scenarios[0].Results {
		line, refused := "| "+r.Contender+" |", 0
		for _, part := range all.Scenarios {
			line += " " + summary(part.Results[i]) + " |"
			refused += total(part.Results[i].Refused)
		}
		fmt.Fprintf(out, "%s %d |\n", line, refused)
	}
}

// summary is a result in one cell.
func summary(r result) string {
	text := "–"
	switch unanswered := r.Calls - r.GivenUp - r.OK; {
	case r.Note != "":
		text = shortened(r.Note, 20)
	case r.NeverEnded > 0:
		text = fmt.Sprintf("hangs (%d)", r.NeverEnded)
	case unanswered > 0:
		text = fmt.Sprintf("%d fail", unanswered)
	case r.Efficiency > 0:
		text = fmt.Sprintf("%.2f", r.Efficiency)
	}
	if n := total(r.Refused); n > 0 {
		text += fmt.Sprintf(", %d × 429", n)
	}
	return text
}

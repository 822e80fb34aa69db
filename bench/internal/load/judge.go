package load

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
)

// verdict fails a run that missed a target. It says whether the machine may be the reason.
func (r *Result) verdict() report.Verdict {
	line, cutOff, reasons := "it reached its targets", "it was cut off and is not judged", r.missed()
	if r.scenario.Name == "" {
		cutOff = fmt.Sprintf("%d of %s answered", r.Answered, report.Counted(r.Requests, "request"))
		line, reasons = cutOff+r.remarks(), r.failures()
	}
	if r.Interrupted {
		return report.Verdict{Status: report.Interrupted, Line: cutOff}
	}
	if len(reasons) > 0 && r.Stalled > stallTolerated {
		reasons = append(reasons, fmt.Sprintf("this machine stalled by %s at once: run it again when it has less to do", report.Time(r.Stalled)))
	}
	return report.Judge(line, reasons...)
}

// missed lists the targets of a scenario that were missed, and by how much; none if the run was interrupted.
func (r *Result) missed() (missed []string) {
	targets := r.scenario.Targets
	miss := func(when bool, format string, values ...any) {
		if when {
			missed = append(missed, fmt.Sprintf(format, values...))
		}
	}
	if r.Interrupted {
		return nil
	}
	unanswered := r.Requests - r.Answered
	miss(unanswered > 0, "not answered: %d of %d requests", unanswered, r.Requests)
	miss(r.GivenUp() > 0, "%d had no outcome within %v", r.GivenUp(), patience)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		miss(true, "%d ended with: %s", r.Errors[text], text)
	}
	miss(unanswered == 0 && r.Efficiency() < targets.Efficiency, "%.4f of the ideal, at least %.2f wanted", r.Efficiency(), targets.Efficiency)
	miss(r.seen.Avoidable.Total() > 0, "avoidable 429s: %d, none wanted", r.seen.Avoidable.Total())
	p99 := r.Queued.P99.Round(time.Millisecond)
	miss(targets.P99 > 0 && r.Queued.P99 > targets.P99, "queued for %v (99th percentile), at most %v wanted", p99, targets.P99)
	miss(targets.InOrder && r.seen.Inversions > 0, "overtaken requests: %d, none wanted", r.seen.Inversions)
	return missed
}

// failures returns why a load failed: no request may fail, unless faults disturb the load, and at least one must
// succeed. A long load must not leave anything behind.
func (r *Result) failures() []string {
	all := report.Counted(r.Requests, "request")
	switch n := r.Failed(); {
	case n > 0 && !r.scenario.config.Faults:
		return []string{fmt.Sprintf("%d of %s failed", n, all)}
	case r.Answered == 0:
		return []string{"no request was answered"}
	case r.rejected() == r.Answered:
		return []string{"no answer was a success: " + r.statuses()}
	}
	return r.Leaks.problems()
}

// remarks returns further remarks on a load, for the line of its verdict.
func (r *Result) remarks() (line string) {
	if n := r.rejected(); n > 0 {
		line += fmt.Sprintf(", %d of them no success", n)
	}
	if n := r.Failed(); n > 0 {
		line += fmt.Sprintf(", %d failed or were cancelled", n)
	}
	if r.RefusedEarly > 0 {
		longest := report.Setting(r.scenario.config.MaxRateLimit)
		line += fmt.Sprintf(", %d refused at once, as they would have waited longer than %s", r.RefusedEarly, longest)
	}
	switch n := r.seen.Avoidable.Total(); {
	case n == 0:
		line += ", no avoidable 429"
	default:
		line += ", " + report.Counted(n, "avoidable 429")
	}
	if r.Efficiency() > 0 {
		line += fmt.Sprintf(", %.3f of the ideal", r.Efficiency())
	}
	if r.scenario.config.Length > 0 {
		line += ", nothing left behind"
	}
	return line
}

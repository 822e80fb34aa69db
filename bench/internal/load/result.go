package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result holds the measurements of a run.
type Result struct {
	scenario *Scenario
	seen     discordsim.Report // by the simulator
	known    map[string]string // the kinds that the client took the buckets for, see inProcess.kinds

	// Answered counts the requests with a success. RefusedEarly counts the requests that the client refused, because the
	// predicted wait exceeded the max rate limit. Errors counts the failed requests, by the text of the error.
	Requests, Answered, RefusedEarly int
	Errors                           map[string]int
	// Took is the time from the start until the last outcome. Requests that were given up have no outcome.
	Took time.Duration
	// Queued has quantiles of the time from the handover of a request to the client until the accepted attempt was sent.
	Queued      Queued
	Ideal       Ideal
	Stalled     time.Duration // the longest delay of a timer or of the simulator
	Leaks       Leaks         // of a long load
	Interrupted bool
	Timeline    *report.Timeline // nil: nothing was recorded
}

func newResult(s *Scenario) Result {
	return Result{scenario: s, Requests: s.Requests(), Errors: make(map[string]int)}
}

// Failed returns the number of requests in Errors.
func (r *Result) Failed() (n int) {
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// GivenUp returns the number of requests that were given up when the load was interrupted.
func (r *Result) GivenUp() int { return r.Requests - r.Answered - r.RefusedEarly - r.Failed() }

// Efficiency returns the ideal time divided by the time taken, or 0 if no ideal is stated or a request was not
// answered.
func (r *Result) Efficiency() float64 {
	if r.Took == 0 || r.Answered < r.Requests {
		return 0
	}
	return r.Ideal.Time.Seconds() / r.Took.Seconds()
}

// note records the outcome of one request. A request that was given up has no outcome.
func (r *Result) note(status int, err error, took time.Duration) {
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.Is(err, buckets.ErrClosed), errors.Is(err, context.Canceled):
		return
	case errors.Is(err, context.DeadlineExceeded):
		r.Errors["cancelled by the load"]++
	case errors.As(err, &tooLong):
		r.RefusedEarly++
	case err != nil:
		r.Errors[err.Error()]++
	case status >= http.StatusMultipleChoices:
		r.Errors[fmt.Sprintf("status %d", status)]++
	default:
		r.Answered++
	}
	r.Took = max(r.Took, took)
}

// verdict returns Failed for a run that missed a target, and says whether the machine may be the reason.
func (r *Result) verdict() report.Verdict {
	line := fmt.Sprintf("%d of %s answered", r.Answered, report.Counted(r.Requests, "request"))
	if r.Interrupted {
		return report.Verdict{Status: report.Interrupted, Line: line}
	}
	if n := r.Failed(); n > 0 {
		line += fmt.Sprintf(", %d failed or were cancelled", n)
	}
	if r.RefusedEarly > 0 {
		line += fmt.Sprintf(", %d refused at once, as they would have waited longer than %s", r.RefusedEarly,
			report.Setting(r.scenario.config.MaxRateLimit))
	}
	line += fmt.Sprintf(", avoidable 429s: %d", r.seen.Avoidable.Total())
	if r.Efficiency() > 0 {
		line += fmt.Sprintf(", %.3f of the ideal", r.Efficiency())
	}
	if r.scenario.config.Length > 0 {
		line += ", nothing left behind"
	}
	reasons := r.missed()
	if len(reasons) > 0 && r.Stalled > stallTolerated {
		reasons = append(reasons, fmt.Sprintf("this machine stalled for %s: try again when it has less to do",
			report.Time(r.Stalled)))
	}
	return report.Judge(line, reasons...)
}

// missed lists the targets that were missed, and by how much. No request may fail, unless faults disturb the load. In a
// load from flags, the client may refuse requests at once, and there is no target for avoidable 429s. A long load must
// leave nothing behind.
func (r *Result) missed() (missed []string) {
	s, targets := r.scenario, r.scenario.Targets
	miss := func(when bool, format string, values ...any) {
		if when {
			missed = append(missed, fmt.Sprintf(format, values...))
		}
	}
	miss(r.Answered == 0, "no request was answered")
	miss(r.GivenUp() > 0, "%d had no outcome within %v", r.GivenUp(), patience)
	for _, text := range slices.Sorted(maps.Keys(r.Errors)) {
		miss(!s.config.Faults, "%d ended with: %s", r.Errors[text], text)
	}
	if s.Name != "" {
		miss(r.RefusedEarly > 0, "refused at once: %d, none wanted", r.RefusedEarly)
		miss(r.seen.Avoidable.Total() > 0, "avoidable 429s: %d, none wanted", r.seen.Avoidable.Total())
	}
	miss(r.Answered == r.Requests && r.Efficiency() < targets.Efficiency,
		"%.4f of the ideal, at least %.2f wanted", r.Efficiency(), targets.Efficiency)
	p99 := r.Queued.P99.Round(time.Millisecond)
	miss(targets.P99 > 0 && r.Queued.P99 > targets.P99,
		"queued for %v (99th percentile), at most %v wanted", p99, targets.P99)
	miss(targets.InOrder && r.seen.Inversions > 0, "overtaken requests: %d, none wanted", r.seen.Inversions)
	return append(missed, r.Leaks.problems()...)
}

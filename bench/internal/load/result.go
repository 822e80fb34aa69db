package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result holds the measurements of a run.
type Result struct {
	scenario *Scenario
	seen     discordsim.Report // by the simulator
	known    map[string]string // what the client took the buckets for, see inProcess.kinds

	Requests int
	// Answered counts requests with a response, Statuses these by status. A 429 before another attempt does not count.
	Answered int
	Statuses map[int]int
	// RefusedEarly counts requests that the client rejected, because the predicted wait exceeded the max rate limit.
	RefusedEarly int
	// Errors counts the requests that failed, by the text of the error.
	Errors map[string]int
	// Took is the time from the start until the last outcome. Requests that were given up have none.
	Took time.Duration
	// Queued has quantiles of the time from the handover until the accepted attempt was sent.
	Queued      Queued
	Ideal       Ideal
	Stalled     time.Duration // the longest that a timer or a response came late
	Leaks       Leaks         // of a long load
	Interrupted bool
	Timeline    *report.Timeline // nil: nothing was recorded
}

func newResult(s *Scenario) Result {
	return Result{scenario: s, Requests: s.Requests(), Statuses: make(map[int]int), Errors: make(map[string]int)}
}

// Failed returns the number of requests in Errors.
func (r *Result) Failed() (n int) {
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// rejected returns how many responses were no success.
func (r *Result) rejected() (n int) {
	for status, count := range r.Statuses {
		if status >= http.StatusMultipleChoices {
			n += count
		}
	}
	return n
}

// GivenUp returns the number of requests that were given up when the load was interrupted.
func (r *Result) GivenUp() int { return r.Requests - r.Answered - r.RefusedEarly - r.Failed() }

// Efficiency returns the ideal time divided by the time taken, or 0 if none is stated or a request was not answered.
func (r *Result) Efficiency() float64 {
	if r.Took == 0 || r.Answered < r.Requests {
		return 0
	}
	return r.Ideal.Time.Seconds() / r.Took.Seconds()
}

// note records the outcome of one request. It returns false if the request was given up and has none.
func (r *Result) note(status int, err error, took time.Duration) bool {
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.Is(err, buckets.ErrClosed), errors.Is(err, context.Canceled):
		return false
	case errors.Is(err, context.DeadlineExceeded):
		r.Errors["cancelled by the load"]++
	case errors.As(err, &tooLong):
		r.RefusedEarly++
	case err != nil:
		r.Errors[httpclient.Redact(err).Error()]++
	case status >= http.StatusBadRequest && r.scenario.Name != "": // a load accepts any response
		r.Errors[fmt.Sprintf("status %d", status)]++
	default:
		r.Answered++
		r.Statuses[status]++
	}
	r.Took = max(r.Took, took)
	return true
}

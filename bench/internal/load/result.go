package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ratelight/ratelight/bench/internal/report"
	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/ratelimits"
)

// Result is what was measured. It contains neither the token nor the path.
type Result struct {
	scenario *Scenario

	Requests int
	// Answered requests got a response, by status in Statuses. 429s that were followed by another attempt do not count.
	Answered int
	Statuses map[int]int
	// RefusedEarly requests were refused by the client, because the predicted wait exceeded the max rate limit.
	RefusedEarly int
	// Errors counts requests that failed, by how.
	Errors map[string]int
	// Took is the time from the start until the last request had an outcome; those that were given up have none.
	Took time.Duration
	// Refused counts 429s. Judged says that a simulator judged them; only then Avoidable and Excused mean anything.
	Refused, Avoidable, Excused discordsim.ByClass
	Judged                      bool
	Inversions                  int // requests of a scenario that were overtaken in their bucket
	Ideal                       Ideal
	Reading
	Stalls      Stalls
	Interrupted bool
	Log         *report.Log // nil: nothing was recorded
}

func newResult(s *Scenario, log *report.Log) Result {
	return Result{scenario: s, Requests: s.Requests(), Statuses: make(map[int]int), Errors: make(map[string]int), Log: log}
}

// Failed is the number of requests in Errors.
func (r *Result) Failed() (n int) {
	for _, count := range r.Errors {
		n += count
	}
	return n
}

// rejected is how many answers were no success. A redirection is none, as it is not followed.
func (r *Result) rejected() (n int) {
	for status, count := range r.Statuses {
		if status >= http.StatusMultipleChoices {
			n += count
		}
	}
	return n
}

// GivenUp is the number of requests that were given up when the load was interrupted.
func (r *Result) GivenUp() int { return r.Requests - r.Answered - r.RefusedEarly - r.Failed() }

// Certain is the efficiency against the certain ideal, 0 if none is stated.
func (r *Result) Certain() float64 { return r.efficiency(r.Ideal.Certain) }

// Omniscient is the efficiency against the omniscient ideal, 0 if none is stated.
func (r *Result) Omniscient() float64 { return r.efficiency(r.Ideal.Omniscient) }

// efficiency says nothing about a run that did not do all the work.
func (r *Result) efficiency(ideal time.Duration) float64 {
	if r.Took == 0 || r.Answered < r.Requests {
		return 0
	}
	return ideal.Seconds() / r.Took.Seconds()
}

// note takes in how one request ended, and reports false if it was given up.
func (r *Result) note(status int, err error, took time.Duration) bool {
	var tooLong *ratelimits.TooLongError
	switch {
	case errors.Is(err, buckets.ErrClosed), errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &tooLong):
		r.RefusedEarly++
	case err != nil:
		r.Errors[r.scenario.config.textOf(err)]++
	case status >= http.StatusBadRequest && r.scenario.Name != "": // to a load, any answer is one
		r.Errors[fmt.Sprintf("status %d", status)]++
	default:
		r.Answered++
		r.Statuses[status]++
	}
	r.Took = max(r.Took, took)
	return true
}

// textOf is the text of an error without the address that http.Client puts in front, without the tokens of addresses wherever they
// are, and without the one of the Authorization header.
func (c *Config) textOf(err error) string {
	err = httpclient.Redact(err)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if c.Token == "" {
		return err.Error()
	}
	_, token, _ := strings.Cut(c.Token, " ") // what follows "Bot"
	return strings.ReplaceAll(err.Error(), cmp.Or(token, c.Token), "…")
}

// refusals counts 429s as the client saw them.
func refusals(stats buckets.Stats) discordsim.ByClass {
	n := func(class ratelimits.Class) int { return int(stats.Responses[class]) }
	return discordsim.ByClass{
		User: n(ratelimits.ClassUser), SubLimit: n(ratelimits.ClassSubLimit), Shared: n(ratelimits.ClassShared),
		Global: n(ratelimits.ClassGlobal), Edge: n(ratelimits.ClassEdge),
	}
}

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/ratelimits"
)

// note records the outcome of a request. Each request must have exactly one.
func (s *soak) note(p plan, response *http.Response, err error, took time.Duration) {
	outcome, expected := outcomeOf(p, response, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.result
	r.Outcomes[outcome]++
	r.Longest = max(r.Longest, took)
	if what := fmt.Sprintf("%s: %v", outcome, err); !expected && (len(r.Unexpected) < mostUnexpected || r.Unexpected[what] > 0) {
		r.Unexpected[what]++
	}
	if s.Done != nil {
		s.Done()
	}
}

// outcomeOf returns the name of an outcome, and reports whether the request may have it.
func outcomeOf(p plan, response *http.Response, err error) (outcome string, expected bool) {
	tooLong, isTooLong := errors.AsType[*ratelimits.TooLongError](err)
	switch {
	case err == nil && response.StatusCode == http.StatusTooManyRequests:
		return "answered 429 (its body can be sent only once)", p.once()
	case err == nil:
		return fmt.Sprintf("answered %dxx", response.StatusCode/100), true
	case response != nil:
		return "answered, the body got lost", true
	case isTooLong:
		return "refused early: too long", !tooLong.Deadline || p.deadline > 0
	case is[*ratelimits.BudgetError](err):
		return "refused early: budget of invalid requests", true
	case is[*httpclient.CredentialError](err):
		return "refused early: credential does not work", true
	case is[*ratelimits.EdgeError](err):
		return "refused at the edge", true
	case is[*httpclient.AttemptTimeoutError](err):
		return "no answer in time", true
	case errors.Is(err, context.Canceled):
		return "cancelled", p.cancelAfter > 0
	case errors.Is(err, context.DeadlineExceeded):
		return "past its deadline", p.deadline > 0
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, errBetween):
		return "connection lost", true
	}
	return "something else", false
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

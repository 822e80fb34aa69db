package jobs

import (
	"errors"
	"net/http"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
	"github.com/ratelight/ratelight/httpclient/rest"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// Action is what becomes of a job.
type Action int

const (
	// Done: it is finished.
	Done Action = iota
	// Retry: it failed, and is tried again after the job queue's own backoff, which uses up an attempt.
	Retry
	// Snooze: a limit is in the way. It comes back after Decision.After, which uses up no attempt.
	Snooze
	// Cancel: it cannot succeed, however often it is tried.
	Cancel
)

// String returns the name of the action, in lower case.
func (a Action) String() string {
	switch a {
	case Done:
		return "done"
	case Retry:
		return "retry"
	case Snooze:
		return "snooze"
	case Cancel:
		return "cancel"
	}
	return "unknown"
}

// Decision is what becomes of a job, and why.
type Decision struct {
	Action Action
	// After is when a snoozed job comes back, counted from now.
	After time.Duration
	// Err is the job's error without the secrets of URLs, so that it can be kept with the job. errors.Is and errors.As find what they found
	// before. nil if the job is done.
	Err error
}

const (
	codeOpeningDMsTooFast = 40003 // a 403, but a matter of pace
	codeInvalidForm       = 50035
)

// Decide says what becomes of a job that ended with an error:
//
//	Done     nil
//	Snooze   *ratelimits.TooLongError, *ratelimits.QueueFullError, *ratelimits.BudgetError, *ratelimits.EdgeError,
//	         *httpclient.CredentialError of an Authorization (until it is used again), buckets.ErrClosed, and status 429
//	Cancel   *httpclient.CredentialError of a webhook or interaction, *routes.PathError, rest.ErrPath, rest.ErrHeader;
//	         statuses 404, 403 but for code 40003 (direct messages opened too fast), and 400 with code 50035 (invalid
//	         form)
//	Retry    everything else: statuses 401 and 5xx, connection errors, errors that have nothing to do with Discord
//
// A 401 may be a mistake, and a token may be replaced, so that a job outlives both. It uses up an attempt each time that
// it gets a 401 itself.
//
// Statuses are those of a *rest.APIError and of what [WithStatus] finds. Call Decide once for each error, as each snooze takes the next
// free time. It does not block and is safe for concurrent use.
func (p *Policy) Decide(err error) Decision {
	if err == nil {
		return Decision{}
	}
	action, after := p.judge(err)
	return Decision{Action: action, After: after, Err: httpclient.Redact(err)}
}

func (p *Policy) judge(err error) (Action, time.Duration) {
	if e, ok := errors.AsType[*ratelimits.TooLongError](err); ok {
		return Snooze, p.afterTooLong(e)
	}
	if e, ok := errors.AsType[*ratelimits.QueueFullError](err); ok {
		return Snooze, p.after(slot{key: "full " + e.Route, wait: p.settings.maxWait})
	}
	if e, ok := errors.AsType[*ratelimits.BudgetError](err); ok {
		return Snooze, p.after(slot{key: "budget", wait: max(e.RetryAfter, unpredicted)})
	}
	if e, ok := errors.AsType[*ratelimits.EdgeError](err); ok {
		return Snooze, p.after(slot{key: "edge", wait: max(e.Hold, unpredicted)})
	}
	if errors.Is(err, buckets.ErrClosed) { // the process ends, or should
		return Snooze, p.after(slot{key: "closed", wait: p.settings.maxWait})
	}
	if e, ok := errors.AsType[*httpclient.CredentialError](err); ok && e.Kind == httpclient.CredentialAuthorization {
		return Snooze, p.after(slot{key: "rest " + e.Route, wait: max(e.RetryAfter, time.Second)})
	} else if ok || malformed(err) {
		return Cancel, 0
	}
	return p.judgeStatus(p.settings.statusOf(err))
}

func (p *Policy) judgeStatus(s Status) (Action, time.Duration) {
	switch s.Status {
	case http.StatusTooManyRequests:
		return Snooze, p.after(slot{key: "429 " + s.Route, wait: max(s.RetryAfter, time.Second)})
	case http.StatusNotFound:
		return Cancel, 0
	case http.StatusForbidden:
		if s.Code != codeOpeningDMsTooFast {
			return Cancel, 0
		}
	case http.StatusBadRequest:
		if s.Code == codeInvalidForm {
			return Cancel, 0
		}
	}
	return Retry, 0
}

// Status is what a response of Discord said that a library has made an error of.
type Status struct {
	// Status is the HTTP status code, 0 if the error is not about a response.
	Status int
	// Code is Discord's error code, 0 if there was none.
	Code int
	// Route is the method and template. It may be empty.
	Route string
	// RetryAfter is the wait that a 429 asks for, 0 if it does not say.
	RetryAfter time.Duration
}

// restStatus finds the error of package rest.
func restStatus(err error) (s Status) {
	e, ok := errors.AsType[*rest.APIError](err)
	if !ok {
		return s
	}
	s = Status{Status: e.Status, Code: e.Code, Route: e.Route}
	if r := e.Response; r != nil {
		s.RetryAfter = ratelimits.ParseResponse(r.Status, r.Header, r.Body).RetryAfter
	}
	return s
}

// malformed reports a request that nobody could have sent.
func malformed(err error) bool {
	return is[*routes.PathError](err) || errors.Is(err, rest.ErrPath) || errors.Is(err, rest.ErrHeader)
}

// is reports whether there is an error of type E in an error's tree.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

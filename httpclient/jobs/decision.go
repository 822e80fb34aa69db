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

// Action says what the job queue should do with a job.
type Action int

const (
	// Done: the job is finished.
	Done Action = iota
	// Retry: the job failed. Try it again after the job queue's own backoff. That uses up an attempt.
	Retry
	// Snooze: the job has to wait for a limit. Try it again after Decision.After. That uses up no attempt.
	Snooze
	// Cancel: the job can never succeed.
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

// Decision says what to do with a job, and why.
type Decision struct {
	Action Action
	// After is the time from now until a snoozed job is tried again; 0 for other actions.
	After time.Duration
	// Err is the job's error without the secrets of URLs, so that Err can be stored with the job. errors.Is and errors.As
	// find the same errors in Err as in the original error. Err is nil if the job is done.
	Err error
}

const (
	codeOpeningDMsTooFast = 40003 // status 403, but a limit: a later attempt can succeed
	codeInvalidForm       = 50035
)

// Decide says what to do with a job that ended with an error:
//
//	Done     nil
//	Snooze   *ratelimits.TooLongError, *ratelimits.QueueFullError, *ratelimits.BudgetError, *ratelimits.EdgeError,
//	         *httpclient.CredentialError of an Authorization (until the Authorization is used again),
//	         buckets.ErrClosed, and status 429
//	Cancel   *httpclient.CredentialError of a webhook or interaction, *routes.PathError, rest.ErrPath, rest.ErrHeader,
//	         *ratelimits.SupersededError (a newer request took the place of the job's request); statuses 404, 403
//	         except with code 40003 (direct messages opened too fast), and 400 with code 50035 (invalid form)
//	Retry    everything else: statuses 401 and 5xx, connection errors, errors that have nothing to do with Discord
//
// After a 401, the job is tried again, because the 401 may be a mistake of Discord, or the token may be replaced. Each
// 401 to a request of the job itself uses up one attempt of the job.
//
// The status is that of a *rest.APIError, or the status that the function of [WithStatus] returns. Call Decide only
// once for each error, because each Snooze reserves the next free time of a limit. Decide does not block and is safe
// for concurrent use.
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
	if is[*ratelimits.SupersededError](err) {
		return Cancel, 0
	}
	if errors.Is(err, buckets.ErrClosed) { // the process is ending
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

// Status describes the response in an error of a library.
type Status struct {
	// Status is the HTTP status code, 0 if the error is not about a response.
	Status int
	// Code is Discord's error code, 0 if the response had none.
	Code int
	// Route is the method and template. It may be empty.
	Route string
	// RetryAfter is the wait that a 429 asks for, 0 if it asks for none.
	RetryAfter time.Duration
}

// restStatus returns the Status of an error of package rest, the zero Status for other errors.
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

// malformed reports whether the request was invalid, so that it can never be sent.
func malformed(err error) bool {
	return is[*routes.PathError](err) || errors.Is(err, rest.ErrPath) || errors.Is(err, rest.ErrHeader)
}

// is reports whether an error's tree contains an error of type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

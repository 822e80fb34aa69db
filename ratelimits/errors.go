package ratelimits

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// TooLongError says that a request was rejected because it would have had to wait too long. The request was not sent.
// If it had got a 429 before, it was not sent again.
//
// errors.Is(err, context.DeadlineExceeded) is true if the bound was the context's deadline.
type TooLongError struct {
	// Route is the method and template, without parameters.
	Route string
	// Class is the class of the 429 that causes the wait. It is ClassOK if the cause is a full window or a queue.
	Class Class
	// Global reports whether the wait is caused by the global limit of the authentication or IP address, and not by the
	// bucket.
	Global bool
	// Wait is the predicted wait. Like Max, the wait counts from the moment at which the request was made. The wait
	// includes the time that earlier requests in the queue need: the time until the next window, and a whole period for
	// each full window of such requests. Wait is 0 if it cannot be predicted.
	Wait time.Duration
	// Waited is the part of Wait that had passed when the request was rejected. It is 0 if the request was rejected at
	// once. A new attempt would have to wait for the rest of Wait.
	Waited time.Duration
	// Max is the longest acceptable wait: the manager's max rate limit, the request's max wait, or the time until the
	// context's deadline.
	Max time.Duration
	// Deadline reports whether Max is the time until the context's deadline.
	Deadline bool
	// Limit is the number of requests per window, 0 if it is not known.
	Limit int
	// Period is the length of the window, 0 if it is not known.
	Period time.Duration
	// Declared is the name of the declared limit (see buckets.WithLimit) that causes the wait. In that case Limit and
	// Period belong to this declared limit. If another limit causes the wait, Declared is empty.
	Declared string
	// Bucket is the bucket hash, as in X-RateLimit-Bucket. It is empty if it is not known or may contain a token.
	Bucket string
	// Key is the same for requests of one manager that wait for the same limit, which may be a bucket, the global limit of
	// a credential, the edge, or a declared limit. Another manager has another Key for the same limit. Callers can use the
	// Key to space out repeated requests that wait for the same limit. The Key contains no token, and can be empty.
	Key string
	// Cause is the error of the server of shared limits, if the wait could not be predicted because that server is
	// unavailable. Otherwise it is nil. errors.Is and errors.As find it.
	Cause error
}

// Error names the route, the predicted wait, the reason for the wait, and the longest acceptable wait.
func (e *TooLongError) Error() string {
	var b strings.Builder
	b.WriteString("rate limit too long: ")
	b.WriteString(e.Route)
	if e.Wait > 0 {
		fmt.Fprintf(&b, " would wait %v", e.Wait.Round(time.Millisecond))
	} else {
		b.WriteString(" would have to wait") // no prediction
	}
	b.WriteString(e.reason())
	if e.Limit > 0 && !e.Global {
		requests := "request"
		if e.Limit > 1 {
			requests = "requests"
		}
		fmt.Fprintf(&b, " (%d %s per %v)", e.Limit, requests, e.Period.Round(time.Millisecond))
	}
	switch {
	case e.Deadline:
		fmt.Fprintf(&b, ", past the context's deadline in %v", e.Max.Round(time.Millisecond))
	case e.Max <= 0:
		b.WriteString(", and no wait is allowed")
	default:
		fmt.Fprintf(&b, ", longer than the %v that it may wait", e.Max.Round(time.Millisecond))
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// reason names the limit that causes the wait. It returns "" if the cause is just a full window.
func (e *TooLongError) reason() string {
	switch {
	case e.Declared != "":
		return fmt.Sprintf(" for the declared limit %q", e.Declared)
	case e.Class == ClassEdge:
		return " because the edge (Cloudflare) has refused this address"
	case e.Class == ClassGlobal:
		return " for the global limit, which is held"
	case e.Global:
		return " for the global limit"
	case e.Class == ClassShared:
		return " for a limit of the resource, which is used up"
	case e.Class == ClassSubLimit:
		return " for a hidden limit, which is used up"
	case e.Class == ClassUser:
		return " for its bucket, which is used up"
	}
	return ""
}

// Timeout reports whether the bound was the context's deadline. Callers such as *url.Error use it.
func (e *TooLongError) Timeout() bool { return e.Deadline }

// Unwrap returns context.DeadlineExceeded, if the bound was the context's deadline, and Cause, if there is one.
func (e *TooLongError) Unwrap() []error {
	var all []error
	if e.Deadline {
		all = append(all, context.DeadlineExceeded)
	}
	if e.Cause != nil {
		all = append(all, e.Cause)
	}
	return all
}

// QueueFullError says that a request was rejected, and not sent, because as many requests as allowed are waiting
// already.
type QueueFullError struct {
	// Route is the method and template, without parameters.
	Route string
	// Waiting is the number of waiting requests. It counts the requests of all credentials, or only those of the request's
	// credential if that credential may not take more of the places.
	Waiting int
	// Max is how many of the requests that Waiting counts may wait at the same time at present.
	Max int
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("queue full: %s refused, %d of at most %d requests wait", e.Route, e.Waiting, e.Max)
}

// SupersededError says that a request was not sent, or not sent again, because a newer request with the same key took
// its place: see buckets.Request.Supersedes. The newer request may be waiting, and it may fail as well.
type SupersededError struct {
	// Route is the method and template, without parameters.
	Route string
	// Again reports whether the request had made an earlier attempt, and was waiting for the next one. The earlier attempt
	// was given back unsent, got a 429 or a 5xx, or got no response.
	Again bool
}

func (e *SupersededError) Error() string {
	what := "never sent"
	if e.Again {
		what = "not sent again"
	}
	return fmt.Sprintf("superseded: %s was %s, because a newer request with the same key took its place", e.Route, what)
}

// EdgeError says that the network in front of Discord (Cloudflare) refused a request without saying when to retry. The
// request was not repeated. All requests from this IP address are held for the duration Hold. After that, one request
// is sent before the others.
type EdgeError struct {
	// Route is the method and template, without parameters.
	Route string
	// Hold is how long all requests are held from now on.
	Hold time.Duration
}

func (e *EdgeError) Error() string {
	return fmt.Sprintf("refused at the edge (Cloudflare): the 429 for %s did not come from Discord's API and did not say "+
		"when to retry; all requests from this address are held for %v", e.Route, e.Hold.Round(time.Millisecond))
}

// BudgetError says that a request was rejected, and not sent, because there were so many invalid responses recently
// that Discord might ban the IP address.
type BudgetError struct {
	// Route is the method and template, without parameters.
	Route string
	// Used is the number of invalid responses in the latest Period. InFlight is the number of requests in flight, whose
	// responses may turn out to be invalid.
	Used, InFlight int
	// Limit is the number of invalid responses that are allowed in each Period. The margin is already subtracted.
	Limit  int
	Period time.Duration
	// RetryAfter is the time until some invalid responses are no longer counted. It is 0 if the next permission depends on
	// the outcomes of requests in flight. Responses are counted in slices of a sixtieth of Period, so RetryAfter may be
	// too long by one slice.
	RetryAfter time.Duration
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("invalid request budget used up: %s refused after %d responses of 401, 403 or 429 within %v "+
		"and with %d requests in flight (limit %d); find out what causes them, and try again in %v",
		e.Route, e.Used, e.Period, e.InFlight, e.Limit, e.RetryAfter.Round(time.Second))
}

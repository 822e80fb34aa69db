package ratelimits

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// TooLongError says that a request was rejected because it would have had to wait too long. It was not sent or, after a
// 429, not sent again.
//
// errors.Is(err, context.DeadlineExceeded) is true if the context's deadline was the bound.
type TooLongError struct {
	// Route is the method and template, without parameters.
	Route string
	// Class says which limit causes the wait. It is ClassOK if a full window or a queue causes it, not a 429.
	Class Class
	// Global reports whether the wait comes from the limit of the authentication or IP address, not from the bucket.
	Global bool
	// Wait is the predicted wait. Like Max, it counts from the moment at which the request was made. It includes the
	// wait for the requests ahead in the queue: the next window, and a whole period for each full window that they
	// need. Wait is 0 if no wait can be predicted.
	Wait time.Duration
	// Waited is the part of Wait that had passed when the request was rejected, 0 if it was rejected at once. A new
	// attempt would have to wait for the rest of Wait.
	Waited time.Duration
	// Max is the longest acceptable wait: the max rate limit, the request's max wait, or the time to the deadline.
	Max time.Duration
	// Deadline reports whether Max is the time to the context's deadline.
	Deadline bool
	// Limit is the number of requests per window, 0 if not known.
	Limit int
	// Period is the length of the window, 0 if not known.
	Period time.Duration
	// Declared is the name of the declared limit (buckets.WithLimit) that causes the wait, empty if none does. Limit
	// and Period then belong to it.
	Declared string
	// Bucket is the bucket hash, as in X-RateLimit-Bucket, empty if it is not known or may contain a token.
	Bucket string
	// Key is the same for requests of one manager that wait for the same limit: that of a bucket, of a credential, of
	// the edge, or a declared limit. Callers that repeat such requests later can space them by Key. It contains no
	// token, has no other meaning, and can be empty.
	Key string
	// Cause is why the wait could not be predicted: the server of shared limits is unavailable. errors.Is and errors.As
	// find it. It is nil if only limits are the reason.
	Cause error
}

// Error names the route, the predicted wait and its reason, and the longest acceptable wait.
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

// reason names the limit that causes the wait, unless it is only a window that is used up.
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

// Timeout reports whether the context's deadline was the bound, for callers such as *url.Error that check for timeouts.
func (e *TooLongError) Timeout() bool { return e.Deadline }

// Unwrap returns context.DeadlineExceeded if the context's deadline was the bound, and the cause if there is one.
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

// QueueFullError says that a request was rejected, and not sent, because the largest allowed number of requests wait
// already.
type QueueFullError struct {
	// Route is the method and template, without parameters.
	Route string
	// Waiting is the number of waiting requests: of all credentials, or only of the request's credential if that may
	// not use up more of the places.
	Waiting int
	// Max is the largest number of these requests that may wait now.
	Max int
}

func (e *QueueFullError) Error() string {
	return fmt.Sprintf("queue full: %s refused, %d of at most %d requests wait", e.Route, e.Waiting, e.Max)
}

// SupersededError says that a request was not sent, or not sent again, because a newer request with the same key took
// its place, see buckets.Request.Supersedes. The newer request may still wait, and may fail itself.
type SupersededError struct {
	// Route is the method and template, without parameters.
	Route string
	// Again reports that the request was to be sent again: its earlier attempt was given back unsent, was refused with
	// a 429, got no response, or got a 5xx. It is false for a request that was never sent.
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
// request was not repeated. All requests from this IP address are held for Hold; then one is sent first.
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

// BudgetError says that a request was rejected because there have been so many invalid responses recently that Discord
// might ban the IP address. Nothing was sent.
type BudgetError struct {
	// Route is the method and template, without parameters.
	Route string
	// Used is the number of invalid responses in the latest Period. InFlight is the number of requests whose responses
	// may be invalid.
	Used, InFlight int
	// Limit is the number of invalid responses allowed in each Period, after subtracting the margin.
	Limit  int
	Period time.Duration
	// RetryAfter is the time until some invalid responses are no longer counted, 0 if that depends on requests in
	// flight. Responses are counted in slices of a sixtieth of the Period, so RetryAfter may be too long by one slice.
	RetryAfter time.Duration
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("invalid request budget used up: %s refused after %d responses of 401, 403 or 429 within %v "+
		"and with %d requests in flight (limit %d); find out what causes them, and try again in %v",
		e.Route, e.Used, e.Period, e.InFlight, e.Limit, e.RetryAfter.Round(time.Second))
}

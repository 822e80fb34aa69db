package ratelimits

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// TooLongError says that a request was refused because it would have had to wait too long. Nothing was sent, or, after a
// 429, nothing more.
//
// errors.Is(err, context.DeadlineExceeded) holds when the context's deadline was the bound that would have been missed.
type TooLongError struct {
	// Route is the method and template, without parameters.
	Route string
	// Class says which limit is waited for. It is ClassOK for a window that is used up or a queue ahead, without a 429.
	Class Class
	// Global reports that the wait comes from the limit of the whole authentication or IP address, not from the bucket.
	Global bool
	// Wait is the predicted wait, counted like Max from when the request was made, and counting the queue ahead: the next window,
	// and a whole period for each full window that the requests ahead will need. It is 0 if nothing can be predicted.
	Wait time.Duration
	// Waited is the part of Wait that was over already: 0 if the request was refused at once. Asked again, it would wait for the rest.
	Waited time.Duration
	// Max is the longest wait that was acceptable: the max rate limit, the request's own, or the time to the deadline.
	Max time.Duration
	// Deadline reports that Max was given by the context's deadline.
	Deadline bool
	// Limit is the number of requests per window, 0 if not known.
	Limit int
	// Period is the length of the window, 0 if not known.
	Period time.Duration
	// Cause is why nobody could tell how long the wait would be, and what errors.Is and errors.As find, too: that the server of shared
	// limits is away. It is nil where limits alone are the reason.
	Cause error
}

// Error says what was refused, how long it would have waited, and how long it was allowed to.
func (e *TooLongError) Error() string {
	var b strings.Builder
	b.WriteString("rate limit too long: ")
	b.WriteString(e.Route)
	if e.Wait > 0 {
		fmt.Fprintf(&b, " would wait %v", e.Wait.Round(time.Millisecond))
	} else {
		b.WriteString(" would have to wait") // nobody knows how long
	}
	b.WriteString(e.reason())
	if e.Limit > 0 && !e.Global {
		fmt.Fprintf(&b, " (%d requests per %v)", e.Limit, e.Period.Round(time.Millisecond))
	}
	switch {
	case e.Deadline:
		fmt.Fprintf(&b, ", past the context's deadline in %v", e.Max.Round(time.Millisecond))
	case e.Max <= 0:
		b.WriteString(", and must not wait at all")
	default:
		fmt.Fprintf(&b, ", longer than its max rate limit of %v", e.Max.Round(time.Millisecond))
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// reason says what is waited for, unless it is only the window.
func (e *TooLongError) reason() string {
	switch {
	case e.Class == ClassEdge:
		return " because the edge has refused this address"
	case e.Class == ClassGlobal:
		return " for the global limit, which is held"
	case e.Global:
		return " for the global limit"
	case e.Class == ClassShared:
		return " for a limit of the resource, which was met"
	case e.Class == ClassSubLimit:
		return " for a hidden limit, which was met"
	case e.Class == ClassUser:
		return " for its bucket, which was used up"
	}
	return ""
}

// Timeout reports whether the context's deadline was the bound, for *url.Error and others that ask for timeouts.
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

// QueueFullError says that a request was refused because as many as allowed wait already.
type QueueFullError struct {
	// Route is the method and template, without parameters.
	Route string
	// Waiting is the number of requests that wait.
	Waiting int
	// Max is the greatest number that may.
	Max int
	// Total reports that the bound is the one for all buckets together, not the one for this bucket.
	Total bool
}

func (e *QueueFullError) Error() string {
	where := "for its bucket"
	if e.Total {
		where = "in all buckets"
	}
	return fmt.Sprintf("queue full: %s refused, %d of at most %d requests wait %s", e.Route, e.Waiting, e.Max, where)
}

// EdgeError says that the network in front of Discord (Cloudflare) refused a request without saying when to come back. The
// request was not repeated. Everything from this IP address is held back for a while and then tried with one request.
type EdgeError struct {
	// Route is the method and template, without parameters.
	Route string
	// Hold is how long all requests are held back now.
	Hold time.Duration
}

func (e *EdgeError) Error() string {
	return fmt.Sprintf("refused at the edge: %s was answered with a 429 that did not come from Discord's API and did not say "+
		"when to retry; all requests of this address are held for %v", e.Route, e.Hold.Round(time.Millisecond))
}

// BudgetError says that a request was refused because so many responses were invalid of late that Discord might ban the
// address. Nothing was sent.
type BudgetError struct {
	// Route is the method and template, without parameters.
	Route string
	// Used is the number of invalid responses in the latest Period, InFlight that of the requests that may become some.
	Used, InFlight int
	// Limit is how many are allowed in each Period, the margin taken off.
	Limit  int
	Period time.Duration
	// RetryAfter is how long it takes until some of them are forgotten, 0 if that depends on requests in flight. As they are counted in
	// slices of a sixtieth of the Period, it may be as much longer than that.
	RetryAfter time.Duration
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("invalid request budget used up: %s refused after %d responses of 401, 403 or 429 within %v and %d requests "+
		"in flight (limit %d); find out what causes them, and try again in %v",
		e.Route, e.Used, e.Period, e.InFlight, e.Limit, e.RetryAfter.Round(time.Second))
}

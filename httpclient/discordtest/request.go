package discordtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Request is one request that the server has processed. Do not modify its header and body.
type Request struct {
	Method string
	Path   string // as it was sent, with /api/v10 and without the query
	Query  string // without the question mark
	// Operation is the method and the path with placeholders for its variable parts: "POST /channels/{id}/messages".
	Operation string
	Header    http.Header
	Body      []byte // at most a mebibyte of it
	// Time is when the request arrived and was counted.
	Time time.Time
	// Status is the status of the answer. It is 0 if the connection was cut first, or while a function given to Handle
	// runs.
	Status int
	// Refused is the class of the limit that refused the request, "" if none did.
	Refused Class
	// Avoidable reports whether a correct client would have avoided this 429.
	Avoidable bool
	// Repeated reports whether the request repeats a message: its author created one with the same nonce and
	// enforce_nonce in the five minutes before. No message was created; the answer is the one to the first request.
	Repeated bool
	// Because says briefly why the 429 was avoidable or not.
	Because string
}

// String describes the request and its outcome in one line, without header and body.
func (r Request) String() string {
	text := fmt.Sprintf("%s: %d", r.Operation, r.Status)
	if r.Refused == "" {
		return text
	}
	could := "not avoidable"
	if r.Avoidable {
		could = "avoidable"
	}
	return fmt.Sprintf("%s (%s limit, %s: %s)", text, r.Refused, could, r.Because)
}

// record is a request on its way through the server.
type record struct {
	Request
	server   *Server
	original *http.Request
	wanted   []bool   // by index of the rule: it applies to this request, and its When returned true
	used     []kind   // kinds of answers and faults that have been applied
	message  *message // the message with the request's enforced nonce; nil: none
}

// enter returns a function that records a request and asks the rules' functions about it. The function runs on the
// request's goroutine, without locks.
func (s *Server) enter(rules []Rule) func(r *http.Request, body []byte) any {
	return func(r *http.Request, body []byte) any {
		header := r.Header.Clone()
		header.Del("Connection") // set by the transport of Client, not by its user
		rec := &record{
			Request: Request{
				Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: header, Body: body,
			},
			server:   s,
			original: r,
			wanted:   make([]bool, len(rules)),
		}
		for i, rule := range rules {
			rec.wanted[i] = rule.about(r) && rec.pleases(rule.when)
		}
		return rec
	}
}

// pleases reports whether a rule's When selects the request. A nil function selects all.
func (r *record) pleases(when func(*http.Request) bool) bool {
	if when == nil {
		return true
	}
	defer r.caught("When")
	return when(r.replay())
}

// replay returns a copy of the request with an unread body.
func (r *record) replay() *http.Request {
	again := r.original.WithContext(r.original.Context())
	again.Header = r.Header.Clone()
	again.Body = io.NopCloser(bytes.NewReader(r.Body))
	return again
}

// use reports whether no rule of this kind has been applied yet, and records that one is.
func (r *record) use(k kind) bool {
	if slices.Contains(r.used, k) {
		return false
	}
	r.used = append(r.used, k)
	return true
}

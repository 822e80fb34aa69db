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
	Path   string // unchanged, with /api/v10 and without the query
	Query  string // without the question mark
	// Operation is the method and the path with placeholders for its variable parts: "POST /channels/{id}/messages".
	Operation string
	Header    http.Header
	Body      []byte // at most the first mebibyte
	// Time is the time at which the request arrived and was counted.
	Time time.Time
	// Status is the status of the answer. It is 0 if the connection was cut before the answer. It is also 0 until the
	// function that handles the request (see Handle) has returned.
	Status int
	// Refused is the class of the limit that refused the request, or "" if no limit refused it.
	Refused Class
	// Avoidable reports whether a correct client would have avoided this 429, see the package documentation.
	Avoidable bool
	// Repeated reports whether the request repeats a message: the same author created a message with the same nonce and
	// enforce_nonce in the five minutes before. The server then creates no second message, and responds with the answer to
	// the first one.
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
	wanted   []bool   // by index of the rule: whether it is an answer or a fault that applies to the request
	used     []kind   // kinds of answers and faults that have been applied
	message  *message // the message with the request's enforced nonce; nil if there is none
}

// enter returns a function that makes the record of a request, and calls the When functions of the rules for it. That
// function runs on the goroutine of the request, without locks.
func (s *Server) enter(rules []Rule) func(r *http.Request, body []byte) any {
	return func(r *http.Request, body []byte) any {
		header := r.Header.Clone()
		header.Del("Connection") // set by the transport of Client, not by the program that uses Client
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

// pleases reports whether a rule's When selects the request. A nil When selects all requests.
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

// use records that a rule of this kind is applied. It returns false if a rule of this kind has already been applied.
func (r *record) use(k kind) bool {
	if slices.Contains(r.used, k) {
		return false
	}
	r.used = append(r.used, k)
	return true
}

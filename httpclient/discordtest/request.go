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
	// Time is when the request arrived, which is when it was counted.
	Time time.Time
	// Status of the answer; 0 if the connection was cut before there was one, or if a function given to Handle still works on it.
	Status int
	// Refused is the class of the limit that refused the request, "" if none did.
	Refused Class
	// Avoidable reports that a correct client would not have caused this 429.
	Avoidable bool
	// Repeated reports a message that was not created, because its author had created one with the same nonce and enforce_nonce in the five
	// minutes before. It was answered like the first one.
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
	wanted   []bool   // by the number of a rule: whether it is about this request, and its When, too
	used     []kind   // of answers and faults, one at the most of each
	message  *message // with an enforced nonce: the one that was created, nil if there is none
}

// enter takes a request down and asks the rules' functions about it, in its own goroutine and under no lock.
func (s *Server) enter(rules []Rule) func(r *http.Request, body []byte) any {
	return func(r *http.Request, body []byte) any {
		header := r.Header.Clone()
		header.Del("Connection") // of the client that Client returns, not of whoever uses it
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

// pleases asks a rule's function, if it has one.
func (r *record) pleases(when func(*http.Request) bool) bool {
	if when == nil {
		return true
	}
	defer r.caught("When")
	return when(r.replay())
}

// replay returns the request with a body that can be read again.
func (r *record) replay() *http.Request {
	again := r.original.WithContext(r.original.Context())
	again.Header = r.Header.Clone()
	again.Body = io.NopCloser(bytes.NewReader(r.Body))
	return again
}

// use reports whether a rule of a kind may apply: none has yet.
func (r *record) use(k kind) bool {
	if slices.Contains(r.used, k) {
		return false
	}
	r.used = append(r.used, k)
	return true
}

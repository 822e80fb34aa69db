package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
)

// Response is a response whose body has been read completely.
type Response struct {
	// Status is the HTTP status code.
	Status int
	// Header has the unchanged headers.
	Header http.Header
	// Body is the whole body. net/http has decoded its transfer encoding and, unless the request sets Accept-Encoding, its
	// content encoding.
	Body []byte

	route string
}

// ResponseTooLargeError says that the body of a response was larger than WithMaxResponse allows. Discord has processed
// the request.
type ResponseTooLargeError struct {
	// Route is the method and template, without parameters.
	Route string
	// Status is the HTTP status code.
	Status int
	// Max is the size in bytes of the largest body that is read.
	Max int64
}

func (e *ResponseTooLargeError) Error() string {
	return fmt.Sprintf("%s: the body of the response (status %d) is larger than %d bytes: see WithMaxResponse",
		e.Route, e.Status, e.Max)
}

// DecodeError says that the body of a successful response could not be decoded. Discord has processed the request.
type DecodeError struct {
	// Route is the method and template, without parameters.
	Route string
	// Response is the unchanged response. It may contain tokens, so it is not encoded as JSON.
	Response *Response `json:"-"`
	// Err is ErrNotJSON, or the error of package json.
	Err error
}

// ErrNotJSON is wrapped by a DecodeError if the response's Content-Type is not JSON.
var ErrNotJSON = errors.New("not JSON")

func (e *DecodeError) Error() string {
	return fmt.Sprintf("%s: response (status %d, content type %q) cannot be decoded: %v", e.Route, e.Response.Status,
		clip(e.Response.Header.Get("Content-Type")), clip(e.reason()))
}

// reason describes the error without any value of the response, because a value may be a token.
func (e *DecodeError) reason() string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(e.Err, &kind):
		value, _, _ := strings.Cut(kind.Value, " ") // kind.Value may be "number 12", with a value of the response
		return fmt.Sprintf("JSON's %s does not fit into %s, field %q", value, kind.Type, kind.Field)
	case errors.As(e.Err, &syntax), errors.Is(e.Err, ErrNotJSON):
		return e.Err.Error()
	}
	return "a value does not fit"
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

func readResponse(r *http.Response, route string, limit int64) (*Response, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) == limit {
		if n, err := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
			return nil, &ResponseTooLargeError{Route: route, Status: r.StatusCode, Max: limit}
		} else if err != io.EOF {
			return nil, err
		}
	}
	return &Response{Status: r.StatusCode, Header: r.Header, Body: body, route: route}, nil
}

// isError reports whether a status means that the request was not carried out.
func isError(status int) bool { return status >= 300 && status != http.StatusNotModified }

func (r *Response) decode(out any) error {
	switch r.Status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return nil
	}
	err := ErrNotJSON
	if message.IsJSON(r.Header.Get("Content-Type")) {
		err = json.Unmarshal(r.Body, out)
	}
	if err != nil {
		return &DecodeError{Route: r.route, Response: r, Err: err}
	}
	return nil
}

// ErrOut is returned by DoJSON if out is not a pointer, or is a nil pointer.
var ErrOut = errors.New("out must be a non-nil pointer, as for json.Unmarshal, or nil")

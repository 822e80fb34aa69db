package routes

import (
	"errors"
	"strconv"
)

// What [Match] and [New] can refuse. They come wrapped in a [*PathError].
var (
	// ErrMethod: the method is empty, or has a character that no method of HTTP can have.
	ErrMethod = errors.New("empty method, or one with a character that none can have, expected GET, POST or the like")
	// ErrEmptyPath: there is no path.
	ErrEmptyPath = errors.New("empty path, expected one such as /gateway or a whole URL")
	// ErrNotAbsolute: neither a path from the root nor a URL.
	ErrNotAbsolute = errors.New("expected a path that begins with a slash, or an http or https URL with a host")
	// ErrEncoding: a percent sign without two hexadecimal digits.
	ErrEncoding = errors.New("bad percent-encoding, expected two hexadecimal digits after the percent sign")
	// ErrControlCharacter: a control character, encoded or not.
	ErrControlCharacter = errors.New("control character in the path, none is expected even percent-encoded")
	// ErrDotSegment: a segment "." or "..". Servers disagree on what they mean, so the route is not certain.
	ErrDotSegment = errors.New("the path has a segment . or .., expected a path in which these are resolved")
	// ErrTooLong: the path is longer than any that Discord accepts.
	ErrTooLong = errors.New("the path is too long, expected at most " + strconv.Itoa(maxPath) + " bytes")
	// ErrNotAPI: the URL is that of a file on Discord's CDN or media proxy, which the API's limits do not cover. Send it
	// without a limiter.
	ErrNotAPI = errors.New("a CDN or media host has no API routes, expected discord.com or a proxy of it")
	// ErrTemplate: New was given something else than a template.
	ErrTemplate = errors.New("bad template, expected one such as /channels/{channel_id}/messages, without /api and version")
	// ErrZeroRoute: Compile was called on the zero Route.
	ErrZeroRoute = errors.New("routes: the zero Route has no template, expected one of the catalogue or of New")
)

// PathError says what is wrong with the arguments of [Match] or [New]. It never repeats them, since a path can contain a
// token.
type PathError struct {
	// Offset is the place of the mistake in the given path or template, in bytes, or -1 if it has none.
	Offset int
	// Err is one of this package's sentinels, for errors.Is.
	Err error
}

// Error describes the mistake and what was expected.
func (e *PathError) Error() string {
	if e.Offset < 0 {
		return "routes: " + e.Err.Error()
	}
	return "routes: at byte " + strconv.Itoa(e.Offset) + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *PathError) Unwrap() error { return e.Err }

// Problem is what is wrong with a parameter.
type Problem uint8

// The problems that a [*ParameterError] reports.
const (
	// ParameterMissing: fewer parameters than the template has.
	ParameterMissing Problem = iota + 1
	// ParameterEmpty: the empty string.
	ParameterEmpty
	// ParameterSurplus: more parameters than the template has.
	ParameterSurplus
	// ParameterIllegal: a value that no id, token, code or emoji can have.
	ParameterIllegal
)

// String returns "missing", "empty", "surplus" or "illegal".
func (p Problem) String() string {
	switch p {
	case ParameterMissing:
		return "missing"
	case ParameterEmpty:
		return "empty"
	case ParameterSurplus:
		return "surplus"
	case ParameterIllegal:
		return "illegal"
	default:
		return "unknown"
	}
}

// ParameterError says which parameter [Route.Compile] could not fill in. It never repeats the value, which can be a
// token.
type ParameterError struct {
	Route     Route
	Parameter string // the name in the template, without braces; "" for surplus ones
	Problem   Problem
	Reason    string // what was found and what was expected
}

// Error describes the parameter and what was expected of it.
func (e *ParameterError) Error() string {
	text := "routes: " + e.Route.String() + ": " + e.Problem.String() + " parameter"
	if e.Parameter != "" {
		text += " " + e.Parameter
	}
	return text + ": " + e.Reason
}

package routes

import (
	"errors"
	"strconv"
)

// The errors of [Match], [New], [Parse] and [Route.Compile]. A [*PathError] wraps those of Match, New and Parse.
var (
	// ErrMethod reports that the method is empty or has a character that HTTP does not allow in a method.
	ErrMethod = errors.New("the method is empty or has an illegal character, expected one such as GET or POST")
	// ErrEmptyPath reports that there is no path.
	ErrEmptyPath = errors.New("the path is empty, expected one such as /gateway or a complete URL")
	// ErrNotAbsolute reports that the argument is neither an absolute path nor a URL.
	ErrNotAbsolute = errors.New("expected a path that begins with a slash, or an http or https URL with a host")
	// ErrEncoding reports that the path contains a percent sign without two hexadecimal digits after it.
	ErrEncoding = errors.New("bad percent-encoding, expected two hexadecimal digits after the percent sign")
	// ErrControlCharacter reports that the path contains a control character, percent-encoded or not.
	ErrControlCharacter = errors.New("the path contains a control character, which is not allowed even percent-encoded")
	// ErrDotSegment reports that the path contains a segment "." or "..". Servers treat such segments differently, so the
	// route would be uncertain.
	ErrDotSegment = errors.New("the path has a segment . or .., expected a path without them")
	// ErrTooLong reports that the path is longer than 8 KiB.
	ErrTooLong = errors.New("the path is too long, expected at most " + strconv.Itoa(maxPath) + " bytes")
	// ErrNotAPI reports that the URL is that of a file on Discord's CDN or media proxy. The API's limits do not apply to
	// such a file, so send the request without a limiter.
	ErrNotAPI = errors.New("a CDN or media host has no API routes, expected discord.com or a proxy of it")
	// ErrTemplate reports that the template passed to New or Parse is not valid.
	ErrTemplate = errors.New("bad template, " +
		"expected one such as /channels/{channel_id}/messages, without /api or a version")
	// ErrZeroRoute reports that Compile was called on the zero Route.
	ErrZeroRoute = errors.New("routes: the zero Route has no template, expected a Route from the catalogue or from New")
)

// PathError says what is wrong with the arguments of [Match], [New] or [Parse]. It never contains the arguments,
// because a path can contain a token.
type PathError struct {
	// Offset is the position of the mistake in the path or template, in bytes. It is -1 if the mistake has no position.
	Offset int
	// Err is one of the error variables of this package, for errors.Is.
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

// Problem says what is wrong with a parameter.
type Problem uint8

// The problems that a [*ParameterError] reports.
const (
	// ParameterMissing means that there are fewer values than the template has parameters.
	ParameterMissing Problem = iota + 1
	// ParameterEmpty means that the value is the empty string.
	ParameterEmpty
	// ParameterSurplus means that there are more values than the template has parameters.
	ParameterSurplus
	// ParameterIllegal means that no id, token, code or emoji can have the value.
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

// ParameterError says which parameter [Route.Compile] could not fill in. It never contains the value, which may be a
// token.
type ParameterError struct {
	Route     Route
	Parameter string // the name in the template, without braces; "" for a surplus parameter
	Problem   Problem
	Reason    string // what was found and what was expected
}

// Error names the parameter, what is wrong with it, and what was expected.
func (e *ParameterError) Error() string {
	text := "routes: " + e.Route.String() + ": " + e.Problem.String() + " parameter"
	if e.Parameter != "" {
		text += " " + e.Parameter
	}
	return text + ": " + e.Reason
}

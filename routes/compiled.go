package routes

import (
	"fmt"
	"log/slog"
)

// CompiledRoute is a [Route] with the values of its parameters: one endpoint of Discord's API.
//
// A CompiledRoute has 32 bytes and is comparable with ==. Its strings are parts of the path. A CompiledRoute from
// [Match] shares memory with Match's argument, so use strings.Clone for strings that you keep for long.
//
// fmt and slog print a CompiledRoute without its token. There are two exceptions, in which fmt does not call the Format
// method: a CompiledRoute in an unexported field of a struct that has no Format method, and the verbs %p and %w, which
// go vet rejects.
//
// The zero value is no route.
type CompiledRoute struct {
	route Route
	path  string
	// The id of the major parameter is path[idStart:idEnd], and its token is path[idEnd+1:tokenEnd]. 0 means none. 16 bits
	// are enough for maxPath.
	idStart, idEnd, tokenEnd uint16
}

// fill returns the compiled route of a clean path that matches the route's template.
func fill(r Route, path string) CompiledRoute {
	c := CompiledRoute{route: r, path: path}
	major := r.MajorKind()
	if major == MajorNone {
		return c
	}
	first, rest := cutSegment(path)
	id, rest := cutSegment(rest)
	c.idStart = uint16(len("/") + len(first) + len("/"))
	c.idEnd = c.idStart + uint16(len(id))
	if major != MajorWebhookToken {
		return c
	}
	token, _ := cutSegment(rest)
	c.tokenEnd = c.idEnd + 1 + uint16(len(token))
	if first == "webhooks" {
		c.route = r.forToken(token)
	}
	return c
}

// Route returns the route without its parameters.
func (c CompiledRoute) Route() Route { return c.route }

// IsZero reports whether c is the zero value, which is no route.
func (c CompiledRoute) IsZero() bool { return c == CompiledRoute{} }

// Method returns the HTTP method in upper case, or "{method}" if this package does not know the method. If Method
// returns "{method}", send the request with the method that it had originally.
func (c CompiledRoute) Method() string { return c.route.Method() }

// Path returns the path after the API version, percent-encoded, such as "/channels/1/messages". It has no host, no
// /api, no version and no query. If [Route.TokenInPath] reports true, the path contains a token and so is a secret.
func (c CompiledRoute) Path() string { return c.path }

// Major returns the value of the major parameter. If the route has none, it returns the zero Major. It does not
// allocate.
func (c CompiledRoute) Major() Major {
	m := Major{ID: c.path[c.idStart:c.idEnd]}
	if c.tokenEnd != 0 {
		m.Token = c.path[c.idEnd+1 : c.tokenEnd]
	}
	return m
}

// String returns method and path, such as "POST /channels/1/messages". It replaces a token by "…", and shows the part
// after a token as in the template. For an undocumented endpoint, String returns the whole template, with only the
// major id filled in, because other segments might be secrets.
func (c CompiledRoute) String() string {
	if c.IsZero() {
		return ""
	}
	d := c.route.definition()
	if d.name != "" && d.flags&TokenInPath == 0 {
		return d.method() + " " + c.path
	}
	return d.method() + " " + c.redacted(d)
}

// redacted returns the template with the major id filled in.
func (c CompiledRoute) redacted(d definition) string {
	if d.major == MajorNone {
		return d.template()
	}
	first, rest := cutSegment(d.template())
	id, rest := cutSegment(rest)
	if given := c.Major().ID; isDigits(given) { // if it is not a number, it may be a misplaced token
		id = given
	}
	if c.tokenEnd != 0 {
		_, rest = cutSegment(rest)
		rest = "/…" + rest
	}
	return "/" + first + "/" + id + rest
}

// Format prints the result of String for every verb, in quotes for %#v and %q. Without it, fmt would print the fields
// for some verbs.
func (c CompiledRoute) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), c.String())
}

// LogValue makes slog print a CompiledRoute as String does, with any handler.
func (c CompiledRoute) LogValue() slog.Value { return slog.StringValue(c.String()) }

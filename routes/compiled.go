package routes

import (
	"fmt"
	"log/slog"
	"strconv"
)

// CompiledRoute is a [Route] with its parameters filled in: one endpoint of Discord's API.
//
// It is 40 bytes and comparable with ==. Its strings are parts of the path; a CompiledRoute from [Match] shares memory
// with the string it was made from, so use strings.Clone for what you keep for long.
//
// fmt and slog print it without its token. There are two exceptions, because fmt then bypasses Format: a CompiledRoute
// in an unexported field of a struct without a Format method, and the verbs %p and %w, which go vet rejects.
//
// The zero value is no route.
type CompiledRoute struct {
	route Route
	path  string
	// The major value is path[idStart:idEnd], and its token path[idEnd+1:tokenEnd]. Zero means none. Paths are shorter
	// than maxPath, so 16 bits are enough.
	idStart, idEnd, tokenEnd uint16
	number                   uint64 // see MajorNumber
}

// fill returns the compiled route of a clean path that fits the route's template.
func fill(r Route, path string) CompiledRoute {
	c := CompiledRoute{route: r, path: path}
	major := r.Major()
	if major == MajorNone {
		return c
	}
	first, rest := cutSegment(path)
	id, rest := cutSegment(rest)
	c.idStart = uint16(len("/") + len(first) + len("/"))
	c.idEnd = c.idStart + uint16(len(id))
	c.number = snowflake(id)
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

// Method returns the HTTP method in upper case, or "{method}" for an unknown method, which the caller has to keep.
func (c CompiledRoute) Method() string { return c.route.Method() }

// Path returns the path after the API version, percent-encoded: "/channels/1/messages". It has no host, no /api, no
// version and no query. It contains a token, and so is a secret, if [Route.TokenInPath] reports true.
func (c CompiledRoute) Path() string { return c.path }

// Major returns the value that, with the bucket hash, makes the key of a bucket: the channel's, guild's or webhook's
// id, or "id:token", or "-" if the route has none (hikari's convention). "id:token" is a secret, and is the only form
// that allocates.
func (c CompiledRoute) Major() string {
	switch {
	case c.tokenEnd != 0:
		return c.MajorID() + ":" + c.MajorToken()
	case c.idEnd != 0:
		return c.MajorID()
	default:
		return "-"
	}
}

// MajorID returns the id of the major parameter as it is written in the path, or "" if there is none. It does not
// allocate.
func (c CompiledRoute) MajorID() string { return c.path[c.idStart:c.idEnd] }

// MajorNumber returns the id of the major parameter as a number. It returns 0 if there is none or it does not have the
// form of Discord's ids: decimal, without a leading 0, below 2^63.
func (c CompiledRoute) MajorNumber() uint64 { return c.number }

func snowflake(id string) (n uint64) {
	const safe = 18 // digits that cannot overflow
	if id == "" || id[0] == '0' {
		return 0
	}
	if len(id) > safe {
		n, err := strconv.ParseUint(id, 10, 63)
		if err != nil {
			return 0
		}
		return n
	}
	for i := range len(id) {
		digit := uint64(id[i] - '0')
		if digit > 9 {
			return 0
		}
		n = 10*n + digit
	}
	return n
}

// MajorToken returns the webhook's or interaction's token as it is written in the path, or "" if there is none. It does
// not allocate. The token is a secret.
func (c CompiledRoute) MajorToken() string {
	if c.tokenEnd == 0 {
		return ""
	}
	return c.path[c.idEnd+1 : c.tokenEnd]
}

// RedactedMajor returns Major for logs: "…" replaces a token, and an id that is not a number, because it might be a
// misplaced token.
func (c CompiledRoute) RedactedMajor() string {
	switch {
	case c.idEnd == 0:
		return "-"
	case !isDigits(c.MajorID()):
		return "…"
	case c.tokenEnd != 0:
		return c.MajorID() + ":…"
	}
	return c.MajorID()
}

// String returns method and path, such as "POST /channels/1/messages", with "…" in place of a token. The part after a
// token is printed as in the template. So is the path of an undocumented endpoint, except its major id, because its
// segments might be secrets.
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
	if isDigits(c.MajorID()) { // otherwise it may be a misplaced token
		id = c.MajorID()
	}
	if c.tokenEnd != 0 {
		_, rest = cutSegment(rest)
		rest = "/…" + rest
	}
	return "/" + first + "/" + id + rest
}

// Format prints String for every verb, quoted for %#v and %q. Without Format, fmt would print the fields for some
// verbs.
func (c CompiledRoute) Format(state fmt.State, verb rune) {
	fmt.Fprintf(state, fmt.FormatString(state, verb), c.String())
}

// LogValue makes slog print a CompiledRoute as String does, whatever the handler.
func (c CompiledRoute) LogValue() slog.Value { return slog.StringValue(c.String()) }

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

package routes

import (
	"hash/maphash"
	"log/slog"
	"strings"
	"unique"
)

// Route is an HTTP method with a path template, and with what is known about the limits of requests that match it.
//
// A Route has eight bytes and is comparable. [Match] and [New] return the same Route for the same method and template.
// A template has several Routes if Discord counts the requests separately: by the age of a deleted message, and for
// interaction tokens on webhook paths.
//
// The zero value is no route. Its methods return empty strings, MajorNone, 0 or false.
type Route struct {
	handle unique.Handle[definition]
}

// definition is the value of a Route.
type definition struct {
	text    string // method, space and template in one string, which String returns
	space   uint8  // index of the space
	name    string
	family  string
	major   MajorKind
	flags   Flag
	variant variant
	hash    uint64 // a hash of all other fields
}

func (d *definition) method() string { return d.text[:d.space] }

func (d *definition) template() string { return d.text[min(int(d.space)+1, len(d.text)):] }

var seed = maphash.MakeSeed()

func (d definition) route() Route {
	d.hash = 0
	d.hash = maphash.Comparable(seed, d)
	return Route{unique.Make(d)}
}

// variant distinguishes Routes with the same method and template.
type variant uint8

const (
	variantNone        variant = iota
	variantInteraction         // webhook path with an interaction's token
	variantYoung               // DELETE message, see deleteLane
	variantOld
)

// Flag is a property of a route that its template does not show.
type Flag uint8

// Flags for [New]. Properties that follow from the template, such as a token after /webhooks/{id}, need no flag.
const (
	// GlobalExempt sets [Route.GlobalExempt].
	GlobalExempt Flag = 1 << iota
	// TokenInPath sets [Route.TokenInPath].
	TokenInPath
	// OneShot sets [Route.OneShot].
	OneShot
)

// New makes a Route for an endpoint that is not in the catalogue.
//
// The case of the method does not matter; an unknown method becomes "{method}", see [Match]. The template begins after
// the API version, and each parameter is a whole segment: "/channels/{channel_id}/new-thing". The major parameter
// follows from the beginning of the template. If the catalogue has the same operation, perhaps with other names of
// parameters, New returns the catalogue's Route. If flags has a flag that this Route does not have, New returns a
// separate Route with all flags of both.
//
// [Match] knows only the catalogue: for other paths it returns a Route with placeholders.
//
// The error is a [*PathError] that wraps [ErrMethod], [ErrTemplate] or [ErrTooLong].
func New(method, template string, flags ...Flag) (Route, error) {
	v, ok := parseVerb(method)
	if !ok {
		return Route{}, &PathError{Offset: -1, Err: ErrMethod}
	}
	if err := checkTemplate(template); err != nil {
		return Route{}, err
	}
	d := define(verbs[v]+" "+template, "")
	if known := tree.shaped(template, v); !known.IsZero() {
		d = known.definition()
	}
	for _, flag := range flags {
		d.flags |= flag
	}
	return d.route(), nil
}

// define returns the definition of a Route. text is the method, a space and a valid template.
func define(text, name string) definition {
	d := definition{text: text, space: uint8(strings.IndexByte(text, ' ')), name: name, family: familyOf(text)}
	d.major, d.flags = majorOf(d.template())
	return d
}

func (r Route) definition() definition {
	if r.IsZero() {
		return definition{}
	}
	return r.handle.Value()
}

// as returns a variant of the route.
func (d definition) as(v variant) Route {
	d.variant = v
	return d.route()
}

// IsZero reports whether r is the zero value, which is no route.
func (r Route) IsZero() bool { return r == Route{} }

// Method returns the HTTP method in upper case, or "{method}" if this package does not know it.
func (r Route) Method() string {
	d := r.definition()
	return d.method()
}

// Template returns the path with the names of parameters in braces, such as "/channels/{channel_id}/messages". It has
// no host, no /api and no version.
func (r Route) Template() string {
	d := r.definition()
	return d.template()
}

// Name returns the name of the operation in Discord's published API description, such as "create_message". It returns
// "" if the operation is not in the catalogue.
func (r Route) Name() string { return r.definition().name }

// MajorKind returns the kind of the route's major parameter.
func (r Route) MajorKind() MajorKind {
	if r.IsZero() {
		return MajorNone
	}
	return r.handle.Value().major
}

// Hash returns a 64-bit hash of the Route, for fast look-ups. Two different Routes have the same hash with a
// probability of 2^-64. The hash differs between processes. It is 0 for the zero Route.
func (r Route) Hash() uint64 {
	if r.IsZero() {
		return 0
	}
	return r.handle.Value().hash
}

// GlobalExempt reports whether the bot's global limit does not count requests to the route. According to Discord's
// documentation, this limit does not count an application's responses to interactions: the callback, the original
// response and follow-ups.
//
// Webhook routes with a webhook's own token are not exempt. Requests to these routes should have no Authorization
// header. Without the header, they count against the global limit of the IP address. With the header, they count
// against the limit of the bot.
func (r Route) GlobalExempt() bool {
	d := r.definition()
	return d.flags&GlobalExempt != 0 || d.variant == variantInteraction
}

// TokenInPath reports whether the path contains the token of a webhook or an interaction. A request to such a route
// needs no Authorization header, and its path is a secret.
func (r Route) TokenInPath() bool { return r.definition().flags&TokenInPath != 0 }

// OneShot reports whether there is only one request for each value of the route's major parameter, as for the callback
// of an interaction. There is no limit to learn for such a route, and requests to it must never wait for each other.
func (r Route) OneShot() bool { return r.definition().flags&OneShot != 0 }

// String returns method and template, such as "POST /channels/{channel_id}/messages". A variant, such as the one for
// young messages, follows in parentheses. The zero Route gives "".
func (r Route) String() string {
	if r.IsZero() {
		return ""
	}
	text, suffix := r.handle.Value().text, r.handle.Value().variant.suffix()
	if suffix == "" { // the usual case, without an allocation
		return text
	}
	return text + suffix
}

// LogValue makes slog print a Route as String does, with any handler.
func (r Route) LogValue() slog.Value { return slog.StringValue(r.String()) }

func (v variant) suffix() string {
	switch v {
	case variantInteraction:
		return " (interaction)"
	case variantYoung:
		return " (younger than 10 s)"
	case variantOld:
		return " (older than 14 days)"
	default:
		return ""
	}
}

// Package redact removes secrets from errors and texts: tokens and credentials, including those in URLs.
package redact

import (
	"errors"
	"iter"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// Error returns an error like err, but without the given secrets and without the secrets of URLs. If err is nil or
// contains no secrets, Error returns err itself.
func Error(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	r := &redactor{}
	r.know(secrets)
	r.learn(err)
	if cleaned, changed := r.clean(err); changed {
		return cleaned
	}
	return err
}

// Text returns a text without the given secrets.
func Text(text string, secrets ...string) string {
	r := &redactor{}
	r.know(secrets)
	return r.replace(text)
}

const (
	// Secrets with fewer bytes than shortestSecret are not replaced, because they could be parts of ordinary words.
	shortestSecret = 8
	// A segment of a path with more bytes than longestID is no id, and may be a token.
	longestID = 20
	// A segment with at least shortestToken bytes may be a token or the secret of a proxy, unless it is an id or a word
	// of Discord's paths.
	shortestToken = 16

	// hidden replaces secrets.
	hidden = "…"
)

// redactor removes the known secrets and the secrets in URLs.
type redactor struct {
	known []known
}

// known is a secret, and the text that replaces it.
type known struct{ secret, shown string }

func (r *redactor) know(secrets []string) {
	for _, secret := range secrets {
		r.known = append(r.known, known{secret, hidden})
	}
	// Replace longer secrets first, because a shorter one may be a part of them.
	slices.SortStableFunc(r.known, func(a, b known) int { return len(b.secret) - len(a.secret) })
}

// learn finds the URLs in the tree of an error, and adds them and their secrets to the known secrets.
func (r *redactor) learn(err error) {
	if e, ok := err.(*url.Error); ok {
		if shown := showURL(e.URL); shown != e.URL {
			r.known = append(r.known, known{e.URL, shown})
			if u, err := url.Parse(e.URL); err == nil { // an invalid URL is hidden as a whole
				r.know(Secrets(u))
			}
		}
	}
	for _, inner := range unwrap(err) {
		r.learn(inner)
	}
}

// clean returns the error without secrets, and whether it differs from err.
func (r *redactor) clean(err error) (cleaned error, changed bool) {
	inner := unwrap(err)
	for i := range inner {
		if e, other := r.clean(inner[i]); other {
			inner[i], changed = e, true
		}
	}
	if e, ok := err.(*url.Error); ok {
		shown := showURL(e.URL)
		if !changed && shown == e.URL {
			return err, false
		}
		e = &url.Error{Op: e.Op, URL: shown, Err: e.Err}
		if changed {
			e.Err = inner[0]
		}
		return e, true
	}
	text := r.text(err.Error())
	if !changed && text == err.Error() {
		return err, false
	}
	e := &redactedError{text: text, inner: inner, original: func() error { return err }}
	if _, ok := err.(interface{ Timeout() bool }); ok {
		return redactedTimeout{e}, true
	}
	return e, true
}

// unwrap returns the errors that err wraps directly.
func unwrap(err error) []error {
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = slices.Clone(e.Unwrap())
	}
	return slices.DeleteFunc(inner, func(err error) bool { return err == nil })
}

var (
	// anyURL matches http and https URLs in a text.
	anyURL = regexp.MustCompile(`(?i)\bhttps?://[^\s"'<>]*[^\s"'<>.,:;)]`)
	// anyToken matches paths of webhooks and interactions in a text. It does not match route templates, which have a brace
	// in the place of the token.
	anyToken = regexp.MustCompile(`(?i)(/(?:webhooks|interactions)/[^/\s"'?#]+/)[^/\s"'?#{:,;)]+`)
)

// text returns the text without the known secrets and without the secrets of URLs and paths.
func (r *redactor) text(text string) string {
	text = anyURL.ReplaceAllStringFunc(r.replace(text), showURL)
	return anyToken.ReplaceAllString(text, "${1}"+hidden)
}

// replace returns the text without the known secrets.
func (r *redactor) replace(text string) string {
	for _, k := range r.known {
		text = strings.ReplaceAll(text, k.secret, k.shown)
	}
	return text
}

// redactedError replaces an error whose text contains a secret. It wraps the same errors as the original, but without
// secrets. The original is in a function, so that no formatting verb of fmt shows it.
type redactedError struct {
	text     string
	inner    []error
	original func() error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Unwrap() []error      { return e.inner }
func (e *redactedError) Is(target error) bool { return errors.Is(e.original(), target) }

// As sets target to the original if the original's type fits. Otherwise it calls As of the original. To reach the
// wrapped errors, errors.As calls Unwrap, which returns the errors without secrets.
func (e *redactedError) As(target any) bool {
	original := e.original()
	if place := reflect.ValueOf(target).Elem(); reflect.TypeOf(original).AssignableTo(place.Type()) {
		place.Set(reflect.ValueOf(original))
		return true
	}
	as, ok := original.(interface{ As(any) bool })
	return ok && as.As(target)
}

// redactedTimeout is a redactedError with the method Timeout of the original, because url.Error calls that method.
type redactedTimeout struct{ *redactedError }

// Timeout returns the result of the original's Timeout.
func (e redactedTimeout) Timeout() bool {
	return e.original().(interface{ Timeout() bool }).Timeout()
}

// showURL returns a URL without its secrets.
func showURL(raw string) string {
	u, err := url.Parse(raw)
	scheme, _, _ := strings.Cut(raw, "://")
	switch {
	case err == nil && u.Opaque != "":
		return u.Scheme + ":" + hidden
	case err != nil && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		return scheme + "://" + hidden
	case err != nil:
		return hidden
	}
	tail := ""
	if end := strings.IndexAny(raw, "?#"); end >= 0 {
		raw, tail = raw[:end], raw[end:end+1]+hidden
	}
	if u.Host == "" && u.User == nil {
		return showPath(raw) + tail
	}
	start := strings.Index(raw, "//") + len("//")
	authority, path, found := strings.Cut(raw[start:], "/")
	if found {
		path = "/" + path
	}
	return raw[:start] + authority[strings.LastIndexByte(authority, '@')+1:] + showPath(path) + tail
}

// showPath returns a path in which hidden replaces the segments that are or may be tokens.
func showPath(path string) string {
	segments := strings.Split(path, "/")
	for i := range tokensIn(segments) {
		segments[i] = hidden
	}
	return strings.Join(segments, "/")
}

// tokensIn yields the indexes of those segments of a path that are or may be tokens.
func tokensIn(segments []string) iter.Seq[int] {
	return func(yield func(int) bool) {
		var before [2]string // the previous two segments that are not empty
		for i, segment := range segments {
			if segment == "" {
				continue
			}
			owner := strings.EqualFold(before[0], "webhooks") || strings.EqualFold(before[0], "interactions")
			first := before[1] == "" // Discord has no ids in the first segment, but proxies may have a secret there
			if (owner || mayBeToken(segment, first)) && !yield(i) {
				return
			}
			before[0], before[1] = before[1], plainText(segment)
		}
	}
}

func mayBeToken(segment string, first bool) bool {
	switch {
	case len(segment) < shortestToken:
		return false
	case len(segment) > longestID || first:
		return true
	}
	isID := strings.Trim(segment, "0123456789") == ""
	return !isID && !words()[segment]
}

// words returns those words in paths of Discord's API that are long enough to be mistaken for tokens.
var words = sync.OnceValue(func() map[string]bool {
	words := make(map[string]bool)
	for route := range routes.All() {
		for segment := range strings.SplitSeq(route.Template(), "/") {
			if len(segment) >= shortestToken && !strings.HasPrefix(segment, "{") {
				words[segment] = true
			}
		}
	}
	return words
})

// plainText undoes percent-encoding if it is valid.
func plainText(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// Secrets returns the texts that no error about a request may contain. These are the tokens in authorizations, and the
// following parts of the URL: the user, the password, the query, its long values, and the segments of the path that are
// or may be tokens.
func Secrets(u *url.URL, authorizations ...string) []string {
	var secrets []string
	for _, authorization := range authorizations {
		if _, token, _ := strings.Cut(authorization, " "); token != "" {
			authorization = token
		}
		secrets = append(secrets, authorization)
	}
	path, _, _ := strings.Cut(message.Path(u), "?") // an opaque URL may contain a query
	segments := strings.Split(path, "/")
	for i := range tokensIn(segments) {
		secrets = append(secrets, segments[i], plainText(segments[i]))
	}
	password, _ := u.User.Password()
	secrets = append(secrets, u.RawQuery, u.User.Username(), password)
	for _, values := range u.Query() {
		for _, value := range values {
			if len(value) > longestID { // shorter values are words and numbers
				secrets = append(secrets, value)
			}
		}
	}
	return slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < shortestSecret })
}

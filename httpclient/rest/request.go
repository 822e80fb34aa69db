package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/httpclient/internal/redact"
	"github.com/ratelight/ratelight/routes"
)

// MaxReason is the largest number of characters of an audit-log reason (Discord's documentation).
const MaxReason = 512

var (
	// ErrPath is wrapped by errors about invalid paths, and about URLs that do not have the scheme and host of the base
	// URL.
	ErrPath = errors.New("bad path")
	// ErrReason is returned for an audit-log reason of more than MaxReason characters.
	ErrReason = fmt.Errorf("audit-log reason is longer than %d characters", MaxReason)
	// ErrHeader is returned for a header whose name or value cannot be sent.
	ErrHeader = errors.New("header name or value contains an illegal character")
)

// RequestOption is an option of one request.
type RequestOption func(*call)

// Reason sets the reason that the guild's audit log shows for the request, up to MaxReason characters of any script. If
// the reason is longer, Do returns ErrReason. The empty string means no reason.
func Reason(text string) RequestOption {
	return func(c *call) {
		text := strings.ToValidUTF8(text, string(utf8.RuneError))
		switch {
		case text == "":
			c.header.Del("X-Audit-Log-Reason")
		case utf8.RuneCountInString(text) > MaxReason:
			c.err = ErrReason
		default:
			c.header.Set("X-Audit-Log-Reason", strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
		}
	}
}

// Header sets a header of the request, such as an Authorization other than the client's. The empty value removes the
// header. If several options set the same header, the last value counts. If the name or the value cannot be sent, Do
// returns ErrHeader.
//
// The value of the header Host is a name or an address, with or without a port. It selects one of several servers
// behind the base URL. It changes neither the address to which the request is sent nor the limits that apply.
func Header(name, value string) RequestOption {
	return func(c *call) {
		switch {
		case !message.IsHeaderName(name) || !message.IsHeaderValue(value):
			c.err = ErrHeader
		case !strings.EqualFold(name, "Host"):
			c.header.Set(name, value)
		case isHost(value):
			c.host = value
		default:
			c.err = ErrHeader
		}
	}
}

// WithoutAuthorization sends the request without the client's credential.
func WithoutAuthorization() RequestOption {
	return func(c *call) { c.anonymous = true }
}

// call is one use of Do.
type call struct {
	method    string
	route     routes.CompiledRoute
	target    *url.URL
	host      string // for the Host header; if empty, the host of target
	header    http.Header
	anonymous bool
	content   content
	secrets   []string
	err       error // an invalid option; nil: none
}

// repeatable reports whether the request can be sent again, and does no harm if Discord processes it twice.
func (c *call) repeatable() bool { return !c.content.once && message.IsIdempotent(c.method) }

// name returns the name of the request in errors: method and template, without parameters.
func (c *call) name() string { return c.route.Route().String() }

func (c *Client) newCall(ctx context.Context, method, path string, options []RequestOption) (*call, error) {
	switch {
	case c.invalid != nil:
		return nil, c.invalid
	case ctx == nil:
		return nil, buckets.ErrNoContext
	case c.life.Err() != nil:
		return nil, buckets.ErrClosed
	}
	target, route, err := c.resolve(method, path)
	if err != nil {
		return nil, err
	}
	k := &call{method: method, route: route, target: target, header: make(http.Header)}
	if known := route.Method(); strings.EqualFold(known, method) {
		k.method = known // net/http does not correct the case
	}
	for _, option := range options {
		if option != nil {
			option(k)
		}
	}
	if k.err != nil {
		return nil, fmt.Errorf("%s: %w", k.name(), k.err)
	}
	if !k.anonymous {
		k.setDefault("Authorization", c.credential())
	}
	k.setDefault("User-Agent", c.userAgent)
	k.secrets = redact.Secrets(target, c.credential(), k.header.Get("Authorization"))
	return k, nil
}

// setDefault sets a header unless the caller has set it.
func (c *call) setDefault(name, value string) {
	if _, given := c.header[name]; !given && value != "" {
		c.header.Set(name, value)
	}
}

// resolve returns the URL and the route for a path. Its errors do not contain the path, because the path may contain a
// token.
func (c *Client) resolve(method, path string) (*url.URL, routes.CompiledRoute, error) {
	none := routes.CompiledRoute{}
	if _, err := routes.Match(method, path); err != nil {
		return nil, none, err
	}
	whole := path
	if path[0] == '/' {
		if below, ok := strings.CutPrefix(path, c.base.EscapedPath()); ok && strings.HasPrefix(below, "/") {
			path = below // a path with /api/v10, as in Discord's documentation and other libraries
		}
		whole = c.base.String() + path
	}
	target, err := url.Parse(whole)
	switch {
	case err != nil:
		return nil, none, fmt.Errorf("%w: it is not part of a valid URL", ErrPath)
	case strings.Contains(target.RawQuery, " "):
		return nil, none, fmt.Errorf("%w: the query has a space, write it as %%20", ErrPath)
	case strings.Contains(path, "#"):
		return nil, none, fmt.Errorf("%w: it contains a #, write it as %%23", ErrPath)
	case target.Scheme != c.base.Scheme || !strings.EqualFold(target.Host, c.base.Host) || target.User != nil:
		return nil, none, fmt.Errorf("%w: it is not below the base URL, pass what follows it", ErrPath)
	}
	below, ok := strings.CutPrefix(target.EscapedPath(), c.base.EscapedPath())
	if !ok || !strings.HasPrefix(below, "/") {
		below = target.EscapedPath() // for example another version of the API
	}
	if strings.Contains(below+"/", "//") {
		return nil, none, fmt.Errorf("%w: it has an empty segment, is a parameter empty?", ErrPath)
	}
	target.Host = c.base.Host
	route, err := routes.Match(method, below)
	return target, route, err
}

// request returns a request for the Transport. Each call returns a request with a new body.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, c.method, c.target.String(), nil)
	if err != nil {
		return nil, err
	}
	if c.host != "" {
		r.Host = c.host
	}
	r.Header = c.header.Clone()
	for name, values := range r.Header {
		if name != "User-Agent" && values[0] == "" { // net/http replaces a missing User-Agent
			delete(r.Header, name)
		}
	}
	if c.content.open == nil {
		return r, nil
	}
	if _, given := c.header["Content-Type"]; !given {
		r.Header.Set("Content-Type", c.content.contentType)
	}
	r.Body, err = c.content.open()
	r.ContentLength = c.content.length
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	if !c.content.once {
		r.GetBody = func() (io.ReadCloser, error) { return c.content.open() }
	}
	return r, err
}

// conceal removes secrets from an error, and adds the route to it.
func (c *call) conceal(err error) error {
	if outer, ok := err.(*url.Error); ok { // http.Client adds the method and the URL; the route shows both without secrets
		err = outer.Err
	}
	err = redact.Error(err, c.secrets...)
	if strings.Contains(err.Error(), c.name()) {
		return err
	}
	return fmt.Errorf("%s: %w", c.name(), err)
}

// isHost reports whether a text can be the value of the header Host. It returns true for the empty text, which means
// the default host.
func isHost(text string) bool {
	u, err := url.Parse("//" + text)
	return err == nil && u.Host == text && !strings.ContainsAny(text, " %")
}

package httpclient

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/ratelight/ratelight/ratelimits"
)

// Dialect reads what a response says about rate limits: of which limit it speaks, whether a limit refused the request
// (a Class other than ClassOK), and for how long. Discord's dialect is ratelimits.ParseResponse. Package dialects has
// others.
//
// The body is nil at first. If the response is a refusal, or may be one because its status is 403 or 429, the transport
// reads the beginning of the body, at most 64 KiB within 5 s, and calls the Dialect again. That second Response counts.
//
// A Dialect must be safe for concurrent use, and must not change the header or keep the body.
type Dialect func(status int, header http.Header, body []byte) ratelimits.Response

// WithDialect sets how the responses of a server are read that WithHosts or WithAPI adds. The server is spelled as
// there, in any case. A refusal that the dialect finds is handled like a 429, whatever its status: what it applies to
// waits, and the request is sent again. The default, also for nil, is Discord's dialect. That of Discord itself, the
// server "", cannot be changed.
func WithDialect(server string, dialect Dialect) Option {
	return func(s *settings) {
		if server == "" {
			return
		}
		if s.dialects == nil {
			s.dialects = make(map[string]Dialect)
		}
		s.dialects[serverName(server)] = dialect
	}
}

// dialectOf returns the dialect of a server, nil for Discord's.
func (t *Transport) dialectOf(server string) Dialect {
	if len(t.dialects) == 0 {
		return nil
	}
	return t.dialects[serverName(server)]
}

// serverName returns the name of a server without what hosts leave out: a trailing dot and the usual ports.
func serverName(server string) string {
	return hostOf(&url.URL{Scheme: "https", Host: strings.TrimSuffix(server, ":80")})
}

// mayRefuse reports whether only the body of a response shows if a limit refused the request.
func (x *roundTrip) mayRefuse(status int) bool {
	return (status == http.StatusForbidden || status == http.StatusTooManyRequests) && x.dialectOf(x.ask.Server) != nil
}

// parse reads what a response says about limits. The body is nil until it has been read.
func (x *roundTrip) parse(response *http.Response, body []byte) ratelimits.Response {
	if read := x.dialectOf(x.ask.Server); read != nil {
		return read(response.StatusCode, response.Header, body).Clip()
	}
	limits := ratelimits.ParseResponse(response.StatusCode, response.Header, body)
	if x.manager == nil || x.manager.Shares() { // other limiters and processes need it
		limits.Stamp = ratelimits.ParseStamp(response.Header)
	}
	return limits
}

package httpclient

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/ratelight/ratelight/ratelimits"
)

// Dialect reads what a response says about rate limits: which limit the response is about, whether a limit refused the
// request (a Class other than ClassOK), and how long the client must then wait. Discord's dialect is
// ratelimits.ParseResponse. Package dialects has other dialects.
//
// The transport first calls the Dialect with a nil body. If the response is a refusal, or may be one because its status
// is 403 or 429, the transport reads the beginning of the body, at most 64 KiB within 5 s, and calls the Dialect again
// with these bytes. In that case only the result of the second call counts.
//
// A Dialect must be safe for concurrent use, and must not change the header or keep the body.
type Dialect func(status int, header http.Header, body []byte) ratelimits.Response

// WithDialect sets the Dialect that reads the responses of a server of WithHosts or WithAPI. The server is the name
// that WithHosts or WithAPI gives to it. Upper and lower case are the same. A refusal that the Dialect finds is handled
// like a 429, whatever its status: the requests to which it applies wait, and the refused request is sent again.
// Without this option, or with nil, the server has Discord's dialect. The dialect of Discord itself (the server "")
// cannot be changed.
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

// dialectOf returns the Dialect that WithDialect set for a server, or nil, which means Discord's dialect.
func (t *Transport) dialectOf(server string) Dialect {
	if len(t.dialects) == 0 {
		return nil
	}
	return t.dialects[serverName(server)]
}

// serverName returns the name of a server in the form in which the function of WithHosts gets hosts: in lower case,
// without a trailing dot, and without port 80 or 443.
func serverName(server string) string {
	return hostOf(&url.URL{Scheme: "https", Host: strings.TrimSuffix(server, ":80")})
}

// mayRefuse reports whether a response may be a refusal that a Dialect recognises only by the body.
func (x *roundTrip) mayRefuse(status int) bool {
	return (status == http.StatusForbidden || status == http.StatusTooManyRequests) && x.dialectOf(x.ask.Server) != nil
}

// parse reads what a response says about limits. body is nil if the body has not been read yet.
func (x *roundTrip) parse(response *http.Response, body []byte) ratelimits.Response {
	if read := x.dialectOf(x.ask.Server); read != nil {
		return read(response.StatusCode, response.Header, body).Clip()
	}
	limits := ratelimits.ParseResponse(response.StatusCode, response.Header, body)
	if x.manager == nil || x.manager.Shares() { // other limiters and shared limits need the stamp
		limits.Stamp = ratelimits.ParseStamp(response.Header)
	}
	return limits
}

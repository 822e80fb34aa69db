package httpclient

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// WithHosts adds hosts that are limited besides Discord's own: a proxy in front of Discord, a test, a server that is
// compatible with Discord. Requests to all other hosts are passed on unchanged. The function is called for each request
// except those to Discord, whose API is always limited and whose media hosts (routes.IsMediaHost) never are, and those
// to an API of WithAPI. Nil adds none.
//
// The host is that of the request's URL, not of its Host header: in lower case, without a trailing dot, with the port
// unless it is the scheme's default, such as "localhost:8080", "example.com" or "[::1]:8080". A non-ASCII host is
// passed as it is in the URL. The function must be safe for concurrent use, and should be fast.
func WithHosts(limited func(host string) bool) Option {
	return func(s *settings) { s.hosts.limited = limited }
}

// WithServer names the server behind a limited host, for each request to one that is not Discord's own. Hosts of one
// name share all limits and holds; different names share nothing. The name of Discord itself is "", so a proxy that
// only forwards to Discord is declared by returning "" for it. Only what Discord refuses is known of credentials. By
// default, also for nil, each such host is a server of its own, by the name of the host. Where neither WithHosts nor
// WithAPI adds a host besides Discord's own, there is nothing to be named: then every request fails with ErrOptions.
// The host is spelled as for WithHosts, and the function must be safe for concurrent use.
func WithServer(name func(host string) string) Option {
	return func(s *settings) { s.hosts.server = name }
}

// WithAPI adds the base URL of another API that is limited, such as that of a proxy that is mounted below a path. Its
// host is limited like those of WithHosts, and the route of a request is matched to what follows the base URL's path.
// Nil, and a URL without a host, add none.
func WithAPI(base *url.URL) Option {
	return func(s *settings) {
		if base != nil && hostOf(base) != "" {
			s.hosts.apis = append(slices.Clip(s.hosts.apis), api{hostOf(base), strings.TrimRight(base.EscapedPath(), "/")})
		}
	}
}

// hosts are those that are limited besides Discord's.
type hosts struct {
	apis    []api
	limited func(host string) bool
	server  func(host string) string
}

// api is where an API is.
type api struct{ host, path string }

// find returns the server that limits apply to, and whether there is one.
func (h *hosts) find(u *url.URL) (server string, limited bool) {
	if routes.IsAPIHost(u.Host) {
		return "", true
	}
	if len(h.apis) == 0 && h.limited == nil || routes.IsMediaHost(u.Host) {
		return "", false
	}
	host := hostOf(u)
	switch {
	case host == "": // or it would be taken for Discord
		return "", false
	case !h.isAPI(host) && (h.limited == nil || !h.limited(host)):
		return "", false
	case h.server != nil:
		return h.server(host), true
	}
	return host, true
}

// others reports that there may be such hosts.
func (h *hosts) others() bool {
	return h.limited != nil || slices.ContainsFunc(h.apis, func(a api) bool { return !routes.IsAPIHost(a.host) && !routes.IsMediaHost(a.host) })
}

func (h *hosts) isAPI(host string) bool {
	return slices.ContainsFunc(h.apis, func(a api) bool { return a.host == host })
}

// belowAPI returns the path that is sent, without that of the API that it belongs to: of several, the longest.
func (h *hosts) belowAPI(u *url.URL) string {
	path := message.Path(u)
	rest := path
	for _, a := range h.apis {
		if below, ok := strings.CutPrefix(path, a.path); ok && len(below) < len(rest) && strings.HasPrefix(below, "/") && hostOf(u) == a.host {
			rest = below
		}
	}
	return rest
}

// serverOf returns the server whose limits are those of a URL, and whether there is one. Should a function of the caller's panic, the
// body of the request that this is about is closed.
func (t *Transport) serverOf(request *http.Request, u *url.URL) (server string, limited bool) {
	if u == nil {
		return "", false
	}
	found := false
	defer func() {
		if !found {
			closeBody(request)
		}
	}()
	server, limited = t.hosts.find(u)
	found = true
	return server, limited
}

// hostOf returns a URL's host as WithHosts has it, empty if there is only a port or nothing at all.
func hostOf(u *url.URL) string {
	name, port := strings.ToLower(u.Host), ""
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, ']') {
		name, port = name[:colon], name[colon+1:]
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || port == "" || port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		return name
	}
	return name + ":" + port
}

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
// compatible with Discord. The function returns whether a host is limited, and the server behind it. Hosts of one
// server share all limits and holds; different servers share nothing. Discord itself is "", so for a proxy that only
// forwards to Discord return "", and for a server of its own the host. Only what Discord refuses is known of
// credentials.
//
// Requests to all other hosts are passed on unchanged. The function is called for each request except those to
// Discord, whose API is always limited and whose media hosts (routes.IsMediaHost) never are, and those to an API of
// WithAPI. Nil adds none.
//
// The host is that of the request's URL, not of its Host header: in lower case, without a trailing dot, with the port
// unless it is the scheme's default, such as "localhost:8080", "example.com" or "[::1]:8080". A non-ASCII host is
// passed as it is in the URL. The function must be safe for concurrent use, and should be fast.
func WithHosts(server func(host string) (server string, limited bool)) Option {
	return func(s *settings) { s.hosts.server = server }
}

// WithAPI adds the base URL of another API that is limited, such as that of a proxy that is mounted below a path. Its
// host is limited like those of WithHosts, and the route of a request is matched to what follows the base URL's path.
// The server is what is behind it: "" for Discord, base.Host for a server of its own; it is spelled as hosts are. Of
// several APIs at one host the server of the last one counts. A nil base, and one without a host, add none.
func WithAPI(base *url.URL, server string) Option {
	return func(s *settings) {
		if base != nil && hostOf(base) != "" {
			s.hosts.apis = append(slices.Clip(s.hosts.apis), api{
				hostOf(base), strings.TrimRight(base.EscapedPath(), "/"), hostOf(&url.URL{Scheme: base.Scheme, Host: server}),
			})
		}
	}
}

// hosts are those that are limited besides Discord's.
type hosts struct {
	apis   []api
	server func(host string) (server string, limited bool) // nil: no others
}

// api is where an API is, and the server behind it.
type api struct{ host, path, server string }

// find returns the server that limits apply to, and whether there is one.
func (h *hosts) find(u *url.URL) (server string, limited bool) {
	if routes.IsAPIHost(u.Host) {
		return "", true
	}
	if len(h.apis) == 0 && h.server == nil || routes.IsMediaHost(u.Host) {
		return "", false
	}
	host := hostOf(u)
	if host == "" { // or it would be taken for Discord
		return "", false
	}
	for _, a := range slices.Backward(h.apis) {
		if a.host == host {
			return a.server, true
		}
	}
	if h.server == nil {
		return "", false
	}
	return h.server(host)
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

package httpclient

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// WithHosts adds limited hosts to those of Discord: a proxy in front of Discord, a test server, a server that is
// compatible with Discord. The function reports whether a host is limited, and returns the name of the server behind
// the host. Hosts of one server share all limits and holds; different servers share nothing. The name of Discord itself
// is "". Return "" for a proxy that only forwards to Discord, and the host for a separate server.
//
// Requests to hosts that are not limited are sent unchanged. The function is called for each request, except for
// requests to hosts of Discord and to hosts of WithAPI. Discord's API is always limited, and its media hosts
// (routes.IsMediaHost) are never limited. Nil adds no hosts.
//
// The function gets the host of the request's URL, not the Host header. The host is in lower case and without a
// trailing dot. It includes the port unless that is the default port of the URL's scheme. Examples are
// "localhost:8080", "example.com" or "[::1]:8080". A non-ASCII host is passed unchanged. The function must be safe for
// concurrent use, and should be fast.
func WithHosts(server func(host string) (server string, limited bool)) Option {
	return func(s *settings) { s.hosts.server = server }
}

// WithAPI adds the base URL of another limited API, such as a proxy that is mounted below a path. The host of the base
// URL is limited like those of WithHosts. The route of a request is determined from the part of its path that follows
// the path of the base URL. The parameter server names the server behind the API as in WithHosts: "" for Discord,
// base.Host for a separate server. If several APIs have the same host, all requests to that host belong to the server
// of the last of these options. A nil base, or a base without a host, adds nothing.
func WithAPI(base *url.URL, server string) Option {
	return func(s *settings) {
		if base != nil && hostOf(base) != "" {
			s.hosts.apis = append(slices.Clip(s.hosts.apis), api{
				hostOf(base), strings.TrimRight(base.EscapedPath(), "/"), hostOf(&url.URL{Scheme: base.Scheme, Host: server}),
			})
		}
	}
}

// hosts knows which hosts are limited: Discord's, those of WithAPI and those of WithHosts.
type hosts struct {
	apis   []api
	server func(host string) (server string, limited bool) // the function of WithHosts, nil if there is none
}

// api is the address of an API and the server behind it.
type api struct{ host, path, server string }

// find returns the server whose limits apply to a URL, and whether its host is limited.
func (h *hosts) find(u *url.URL) (server string, limited bool) {
	if routes.IsAPIHost(u.Host) {
		return "", true
	}
	if len(h.apis) == 0 && h.server == nil || routes.IsMediaHost(u.Host) {
		return "", false
	}
	host := hostOf(u)
	if host == "" { // the function might return "" (Discord) for an empty host
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

// belowAPI returns the path of a URL below the path of the API to which the URL belongs. If the URL belongs to several
// APIs, the API with the longest path counts.
func (h *hosts) belowAPI(u *url.URL) string {
	path := message.Path(u)
	rest := path
	for _, a := range h.apis {
		below, ok := strings.CutPrefix(path, a.path)
		if ok && len(below) < len(rest) && strings.HasPrefix(below, "/") && hostOf(u) == a.host {
			rest = below
		}
	}
	return rest
}

// serverOf returns the server whose limits apply to a URL, and whether its host is limited. If the function of
// WithHosts panics, serverOf closes the body of the request.
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

// hostOf returns a URL's host in the form of WithHosts, empty if the URL has no host.
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

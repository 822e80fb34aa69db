package proxy

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// RequireHost returns a handler that passes a request to next if the request's host is an IP address, localhost, a name
// without a dot, or one of the given names. All other requests get a 421. This prevents DNS rebinding, in which the
// owner of a web page lets the page's name resolve to this machine, so that a browser sends the page's requests to this
// machine. RequireHost is not needed with a secret or TLS.
func RequireHost(next http.Handler, names ...string) http.Handler {
	allowed := make(map[string]bool, len(names))
	for _, name := range names {
		allowed[canonicalHost(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := canonicalHost((&url.URL{Host: r.Host}).Hostname())
		isAddress := net.ParseIP(host) != nil
		if !isAddress && strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost") && !allowed[host] {
			a := answer{status: http.StatusMisdirectedRequest, reason: "host"}
			a.message = "the proxy does not serve this host: allow its name (--allow-host), or use an address"
			a.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func canonicalHost(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// ofAnotherPage reports whether a page of another origin made a browser send the request. Bots send neither Origin nor
// Sec-Fetch-Site, or they send Discord's own origin.
func (h *Handler) ofAnotherPage(r *http.Request) bool {
	if r.Header["Origin"] == nil && r.Header["Sec-Fetch-Site"] == nil {
		return false
	}
	same := *r
	same.Method = http.MethodPost // Check accepts every GET, but Discord may refuse a GET and count it as invalid
	return h.origins.Check(&same) != nil
}

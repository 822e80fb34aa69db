package proxy

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// RequireHost returns a handler that lets only those requests through to next that are for an address, localhost, a
// name without a dot, or one of the names. A browser sends others for a web page whose name has come to mean this
// machine; they are answered with a 421. With a secret or TLS it is not needed.
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

// ofAnotherPage reports a request that a page of another origin made a browser send. Bots send none of the headers that
// tell; some say that they are a page of Discord's.
func (h *Handler) ofAnotherPage(r *http.Request) bool {
	if r.Header["Origin"] == nil && r.Header["Sec-Fetch-Site"] == nil {
		return false
	}
	same := *r
	same.Method = http.MethodPost // Discord may refuse a GET, too, and counts it
	return h.origins.Check(&same) != nil
}

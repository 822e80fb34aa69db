package httpclient

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// secretHeaders must not reach another host. They are the headers that net/http removes on redirects, the header of
// Discord's second factor, and the Referer, which may contain a token. Headers that only describe the client, like
// X-Super-Properties, are not secret.
var secretHeaders = []string{
	"Authorization", "Cookie", "Cookie2", "Proxy-Authenticate", "Proxy-Authorization", "Referer", "Www-Authenticate",
	"X-Discord-Mfa-Authorization",
}

// withheld returns the names of the headers that are not sent. If the path has a token, that token is the credential
// for Discord. With an Authorization, the request would also count against the bot's global limit, and would be refused
// while that limit is used up (discord-api-docs issues 4142 and 5800; JDA issue 1898).
func (x *roundTrip) withheld(route routes.CompiledRoute) []string {
	switch {
	case x.leavesServer(x.request):
		return secretHeaders
	case x.dialectOf(x.ask.Server) != nil: // a path of another API has no tokens
	case route.Route().TokenInPath() && isToken(message.HeaderValue(x.request.Header, "Authorization")):
		return secretHeaders[:1]
	}
	return nil
}

// isToken reports whether an Authorization may be a token of Discord. An Authorization with the scheme Basic is for a
// proxy: http.Client makes such a header from a URL with a name and a password.
func isToken(authorization string) bool {
	scheme, _, _ := strings.Cut(authorization, " ")
	return authorization != "" && !strings.EqualFold(scheme, "Basic")
}

// without returns a copy of a header without the given names. It ignores upper and lower case, because net/http also
// sends headers whose names are not in the canonical form.
func without(header http.Header, names []string) http.Header {
	rest := header.Clone()
	maps.DeleteFunc(rest, func(name string, _ []string) bool {
		return slices.Contains(names, http.CanonicalHeaderKey(name))
	})
	return rest
}

// leavesServer reports whether a limited host redirected the request to another host, directly or via further hosts.
// http.Client copies the headers of the first request to all redirects, so every host since the first request counts.
// The same host without encryption counts as another host. If the first host is not limited, leavesServer returns
// false, because then the secrets are not Discord's, and the next host may need cookies of a cookie jar.
func (t *Transport) leavesServer(request *http.Request) bool {
	crosses, first := false, request
	hasURL := func(from *http.Response) bool { return from != nil && from.Request != nil && from.Request.URL != nil }
	for from := request.Response; hasURL(from); from = from.Request.Response {
		first = from.Request
		before, now := first.URL, request.URL
		crosses = crosses || hostOf(before) != hostOf(now) || before.Scheme == "https" && now.Scheme != "https"
	}
	if !crosses {
		return false
	}
	_, limited := t.serverOf(request, first.URL)
	return limited
}

// withoutSecrets returns the request to send to a host that is not limited. If a limited host redirected the request,
// the result is a copy without the secretHeaders.
func (t *Transport) withoutSecrets(request *http.Request) *http.Request {
	if request.URL == nil || !t.leavesServer(request) {
		return request
	}
	clean := *request
	clean.Header = without(request.Header, secretHeaders)
	return &clean
}

// hide removes the headers that a limiter in the library above would read, see WithoutRateLimitHeaders.
func hide(response *http.Response) {
	maps.DeleteFunc(response.Header, func(name string, _ []string) bool {
		name = strings.TrimPrefix(http.CanonicalHeaderKey(name), "X-")
		return name == "Ratelimit" || strings.HasPrefix(name, "Ratelimit-")
	})
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusForbidden:
		response.Header.Del("Retry-After")
	}
}

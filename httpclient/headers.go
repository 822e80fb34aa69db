package httpclient

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ratelight/ratelight/httpclient/internal/message"
	"github.com/ratelight/ratelight/routes"
)

// secretHeaders are those that must not reach another host: what net/http takes out of redirects as well, Discord's second factor, and
// the address that led there, which may contain a token. What only describes the client, like X-Super-Properties, is no secret.
var secretHeaders = []string{
	"Authorization", "Cookie", "Cookie2", "Proxy-Authenticate", "Proxy-Authorization", "Referer", "Www-Authenticate", "X-Discord-Mfa-Authorization",
}

// withheld returns the names of the headers that are not sent. Where the path has a token that is Discord's credential;
// with an Authorization the request would also count for the bot's global limit, and be refused while that is used up
// (discord-api-docs issues 4142 and 5800; JDA issue 1898).
func (x *roundTrip) withheld(route routes.CompiledRoute) []string {
	switch {
	case x.leavesServer(x.request):
		return secretHeaders
	case route.Route().TokenInPath() && isToken(message.HeaderValue(x.request.Header, "Authorization")):
		return secretHeaders[:1]
	}
	return nil
}

// isToken reports that an Authorization may be one of Discord's. A name with a password, which http.Client makes of a URL that has
// them, is for a proxy.
func isToken(authorization string) bool {
	scheme, _, _ := strings.Cut(authorization, " ")
	return authorization != "" && !strings.EqualFold(scheme, "Basic")
}

// without returns a copy of a header without those names, however they are spelled: net/http sends them as they are.
func without(header http.Header, names []string) http.Header {
	rest := header.Clone()
	maps.DeleteFunc(rest, func(name string, _ []string) bool { return slices.Contains(names, http.CanonicalHeaderKey(name)) })
	return rest
}

// leavesServer reports a request to which an http.Client was redirected, directly or not, and that has seen another host after the
// first one, which is limited: the client copies the headers of the first request each time. The same host without encryption is
// another one. Redirects that began elsewhere are none of ours: their secrets are, and a jar's cookies may be needed.
func (t *Transport) leavesServer(request *http.Request) bool {
	crosses, first := false, request
	for from := request.Response; from != nil && from.Request != nil && from.Request.URL != nil; from = from.Request.Response {
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

// withoutSecrets returns the request as it may be sent to a host that has nothing to do with limits.
func (t *Transport) withoutSecrets(request *http.Request) *http.Request {
	if request.URL == nil || !t.leavesServer(request) {
		return request
	}
	clean := *request
	clean.Header = without(request.Header, secretHeaders)
	return &clean
}

// limitHeaders are what a limiter in the library above would read.
var limitHeaders = []string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Reset-After", "X-Ratelimit-Bucket",
	"X-Ratelimit-Global", "X-Ratelimit-Scope",
}

// hide removes what a limiter in the library above would read.
func hide(response *http.Response) {
	for _, name := range limitHeaders {
		response.Header.Del(name)
	}
	if response.StatusCode == http.StatusTooManyRequests {
		response.Header.Del("Retry-After")
	}
}

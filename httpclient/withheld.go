package httpclient

import (
	"maps"
	"net/http"
	"slices"

	"github.com/ratelight/ratelight/routes"
)

// WithoutNeedlessAuthorization sends requests whose path contains a token (webhooks, interactions) without the Authorization header.
// They do not need it; with it they count for the bot's global limit, and are stopped by a refusal of it.
func WithoutNeedlessAuthorization() Option {
	return func(s *settings) { s.onlyNeeded = true }
}

// secretHeaders are those that must not reach another host: what net/http takes out of redirects as well, Discord's second factor, and
// the address that led there, which may contain a token. What only describes the client, like X-Super-Properties, is no secret.
var secretHeaders = []string{
	"Authorization", "Cookie", "Cookie2", "Proxy-Authenticate", "Proxy-Authorization", "Referer", "Www-Authenticate", "X-Discord-Mfa-Authorization",
}

// withheld returns the names of the headers that are not sent.
func (x *exchange) withheld(route routes.CompiledRoute) []string {
	switch {
	case crossesHosts(x.request):
		return secretHeaders
	case x.onlyNeeded && route.Route().TokenInPath() && x.request.Header.Get("Authorization") != "":
		return secretHeaders[:1]
	}
	return nil
}

// without returns a copy of a header without those names, however they are spelled: net/http sends them as they are.
func without(header http.Header, names []string) http.Header {
	rest := header.Clone()
	maps.DeleteFunc(rest, func(name string, _ []string) bool { return slices.Contains(names, http.CanonicalHeaderKey(name)) })
	return rest
}

// crossesHosts reports a request to which an http.Client was redirected by another host, directly or not: it copies the headers
// of the first request each time. The same host without encryption is another one.
func crossesHosts(request *http.Request) bool {
	for from := request.Response; from != nil && from.Request != nil && from.Request.URL != nil; from = from.Request.Response {
		before, now := from.Request.URL, request.URL
		if hostOf(before) != hostOf(now) || before.Scheme == "https" && now.Scheme != "https" {
			return true
		}
	}
	return false
}

// withoutSecrets returns the request as it may be sent to a host that has nothing to do with limits.
func withoutSecrets(request *http.Request) *http.Request {
	if request.URL == nil || !crossesHosts(request) {
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

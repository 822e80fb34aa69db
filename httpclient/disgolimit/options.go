package disgolimit

import (
	"net/http"

	"github.com/disgoorg/disgo/rest"
)

// Options returns what lets a client of disgo send through a transport, usually an *httpclient.Transport, and removes disgo's own limiter.
// They are for bot.WithRestClientConfigOpts and rest.NewClient. Several clients may share a transport. Options that follow must not
// set the HTTP client or the limiter.
//
// The HTTP client has no timeout, as that would count the time in the queue; use rest.WithCtx.
func Options(transport http.RoundTripper) []rest.ClientConfigOpt {
	return []rest.ClientConfigOpt{
		rest.WithHTTPClient(&http.Client{Transport: transport}),
		rest.WithRateLimiter(rest.NewNoopRateLimiter()),
	}
}

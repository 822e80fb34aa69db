package disgolimit

import (
	"net/http"

	"github.com/disgoorg/disgo/rest"
)

// Options returns options that make a disgo client send through a transport, usually an *httpclient.Transport, and
// remove disgo's own limiter. Pass them to bot.WithRestClientConfigOpts or rest.NewClient. Several clients may share a
// transport. Options that you add after them must not set the HTTP client or the limiter.
//
// The HTTP client has no timeout, because a timeout would include the time in the queue. Use rest.WithCtx for
// deadlines.
func Options(transport http.RoundTripper) []rest.ClientConfigOpt {
	return []rest.ClientConfigOpt{
		rest.WithHTTPClient(&http.Client{Transport: transport}),
		rest.WithRateLimiter(rest.NewNoopRateLimiter()),
	}
}

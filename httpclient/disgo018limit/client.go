package disgo018limit

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/disgoorg/disgo"
	"github.com/disgoorg/disgo/rest"
)

// NewClient returns a client of disgo that sends through a transport, usually an *httpclient.Transport, and has no
// limiter of its own. Use it with bot.WithRestClient and rest.New. Several clients may share a transport. It is safe
// for concurrent use.
//
// The token is the bot's, without "Bot ". The options are those of rest.NewClient, such as rest.WithLogger; those for
// the HTTP client and the limiter have no effect, and neither has bot.WithRestClientConfigOpts. The HTTP client has no
// timeout, because that would include the time in the queue; use rest.WithCtx.
func NewClient(botToken string, transport http.RoundTripper, options ...rest.ConfigOpt) rest.Client {
	return client{rest.NewClient(botToken, slices.Concat(
		[]rest.ConfigOpt{rest.WithUserAgent(fmt.Sprintf("DiscordBot (%s, %s)", disgo.GitHub, disgo.Version))}, // as bot.New does
		options,
		[]rest.ConfigOpt{
			rest.WithHTTPClient(&http.Client{Transport: transport}),
			rest.WithRateLimiter(rest.NewNoopRateLimiter()),
		},
	)...)}
}

// client is a client whose requests have the context of rest.WithCtx.
type client struct{ rest.Client }

func (c client) Do(endpoint *rest.CompiledEndpoint, rqBody, rsBody any, options ...rest.RequestOpt) error {
	return c.Client.Do(endpoint, rqBody, rsBody, append(slices.Clip(options), passContext)...)
}

// passContext comes after the caller's options.
func passContext(config *rest.RequestConfig) {
	if config.Ctx != nil {
		config.Request = config.Request.WithContext(config.Ctx)
	}
}

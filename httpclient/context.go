package httpclient

import (
	"context"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// requestConfig holds the options that a context sets for its requests.
type requestConfig struct {
	attempts Attempts // a field that is zero does not override the transport's
	latest   bool
}

type requestConfigKey struct{}

func requestConfigOf(ctx context.Context) requestConfig {
	t, _ := ctx.Value(requestConfigKey{}).(requestConfig)
	return t
}

// ContextWithLatest lets each request made with the context supersede an older request that has the same credential,
// method and path and is still waiting, such as an earlier edit of the same message. The newer request takes the place
// of the older one in the queue, and the older one fails at once with a *ratelimits.SupersededError. The option adds no
// wait. Use it for requests of which only the latest content matters, and not for requests that create something. Paths
// are compared with all their parameters, but without the query.
//
// If the older request has already been sent, the option does not affect it, and the newer request is sent after it.
// The network may reorder the two requests, unless buckets.ContextWithOrdered is used as well. After a 429 or a
// failure, the older request is not sent again if a newer one waits or has been sent. Instead it fails with a
// *ratelimits.SupersededError. A newer request is not noticed if it began and ended during the pause after a failure of
// the older one, or while the body of the older one was being read, see buckets.Request.Supersedes.
//
// If buckets.ContextWithSupersedes is used, the key of that option is compared instead of the path. A limiter of
// WithLimiter may ignore both options.
func ContextWithLatest(ctx context.Context) context.Context {
	t := requestConfigOf(ctx)
	t.latest = true
	return context.WithValue(ctx, requestConfigKey{}, t)
}

// supersedes returns the key of the requests that a new request of the route supersedes. The key is empty if the new
// request supersedes none.
func supersedes(ctx context.Context, route routes.CompiledRoute) string {
	if key := buckets.OptionsOf(ctx).Supersedes; key != "" || !requestConfigOf(ctx).latest {
		return key
	}
	return route.Path() // the limiter compares this key only among requests of the same credential and route
}

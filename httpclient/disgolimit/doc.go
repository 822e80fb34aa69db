// Package disgolimit makes every option of an [httpclient.Transport] effective under disgo, from version 0.19 on.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	client, err := disgo.New(token, bot.WithRestClientConfigOpts(disgolimit.Options(transport)...))
//
// Without these options, disgo's own limiter remains active above the transport. For each channel and route, this
// limiter holds a lock from before a request until after the response. Requests wait for the lock before the transport
// sees them, so only one of them is in flight at a time. Priorities have no effect on this wait, and predictions and
// statistics do not include it. The limiter also cuts off the fractions of seconds of its waits, and starts a goroutine
// that never ends.
//
// # Contexts
//
// The transport gets the context of rest.WithCtx. The context bounds the wait and carries the options of package
// buckets, such as buckets.ContextWithPriority. disgo calls a function of rest.WithCheck only before the request waits,
// and not again after the wait.
//
// # Errors
//
// In disgo's errors, errors.As finds *ratelimits.TooLongError and the transport's other errors, and errors.Is finds
// context.DeadlineExceeded and context.Canceled. An error response of Discord is a *rest.Error, as without the
// transport.
package disgolimit

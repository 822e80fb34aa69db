// Package disgolimit makes every option of an [httpclient.Transport] effective under disgo, from version 0.19 on. For disgo 0.18 there is
// package disgo018limit.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	client, err := disgo.New(token, bot.WithRestClientConfigOpts(disgolimit.Options(transport)...))
//
// Without it disgo's own limiter stays above the transport. It holds a lock for each channel and route from before a request until
// after its response: requests wait in it before the transport sees them, so no prediction, no priority and no statistics know of
// that wait, and only one request is under way at a time. It also cuts waits to whole seconds, and starts a goroutine that nothing ends.
//
// # Contexts
//
// rest.WithCtx reaches the transport. It bounds the wait and carries what package buckets reads from a context, like
// buckets.ContextWithPriority. A function of rest.WithCheck is called before the request waits, and not again after that.
//
// # Errors
//
// errors.As finds *ratelimits.TooLongError and the transport's other errors in those that disgo returns; errors.Is finds
// context.DeadlineExceeded and context.Canceled. What Discord answers is a *rest.Error, as without the transport.
package disgolimit

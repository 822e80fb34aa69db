// Package arikawalimit makes every option of an [httpclient.Transport] effective under arikawa, version 3.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	s := state.New("Bot " + token)
//	arikawalimit.Prepare(s.Client, transport)
//
// Without it arikawa's own limiter stays above the transport. It holds a lock for each channel and route from before a request until
// after its response: requests wait in it before the transport sees them, so no prediction, no priority and no statistics know of
// that wait, and only one request is under way at a time. It also adds a quarter of a second to each window, and requests that fail
// with a server error are repeated up to four times, messages included.
//
// # Contexts
//
// The context of client.WithContext bounds the wait and carries what package buckets reads from a context, like
// buckets.ContextWithPriority. Where rate.AcquireOptions.DontWait was used, buckets.ContextWithMaxWait(ctx, 0) has taken its place: the
// option itself belongs to arikawa's limiter and has no effect any more.
//
// # Uploads
//
// arikawa writes a body while it is sent, so that it can be sent once. The transport keeps bodies up to a size and repeats them; a larger one
// that meets a 429 all the same fails. Raise that size if the bot uploads more.
//
// # Errors
//
// errors.As finds *ratelimits.TooLongError and the transport's other errors in those that arikawa returns; errors.Is finds
// context.DeadlineExceeded and context.Canceled. What Discord answers is an *httputil.HTTPError, as without the transport.
package arikawalimit

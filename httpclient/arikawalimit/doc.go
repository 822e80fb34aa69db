// Package arikawalimit makes every option of an [httpclient.Transport] effective under arikawa, version 3.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	s := state.New("Bot " + token)
//	arikawalimit.Prepare(s.Client, transport)
//
// Without Prepare, arikawa's own limiter remains active above the transport. For each channel and route, this limiter
// holds a lock from before a request until after the response. Requests wait for the lock before the transport sees
// them, so only one of them is in flight at a time. Priorities have no effect on this wait, and predictions and
// statistics do not include it. The limiter also adds a quarter of a second to each window. After a server error,
// arikawa repeats a request up to four times, even a message.
//
// # Contexts
//
// The context of client.WithContext bounds the wait and carries the options of package buckets, such as
// buckets.ContextWithPriority. Use buckets.ContextWithMaxWait(ctx, 0) instead of rate.AcquireOptions.DontWait, which
// belongs to arikawa's limiter and has no effect after Prepare.
//
// # Uploads
//
// arikawa produces a body while the body is being sent, so arikawa cannot send the body again. The transport keeps
// bodies up to a certain size in memory (httpclient.WithBufferedBodies), and can send such bodies again. A request with
// a larger body fails if it gets a 429, so raise the size for larger uploads.
//
// # Errors
//
// In arikawa's errors, errors.As finds *ratelimits.TooLongError and the transport's other errors, and errors.Is finds
// context.DeadlineExceeded and context.Canceled. An error response of Discord is an *httputil.HTTPError, as without the
// transport.
package arikawalimit

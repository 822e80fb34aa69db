// Package arikawalimit makes every option of an [httpclient.Transport] effective under arikawa, version 3.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(10 * time.Second))
//	defer transport.Close()
//	s := state.New("Bot " + token)
//	arikawalimit.Prepare(s.Client, transport)
//
// Without Prepare arikawa's own limiter remains active above the transport. The limiter holds a lock for each channel
// and route from before a request until after its response. Requests wait for that lock before the transport sees them,
// so only one of them is in flight at a time, and predictions, priority and statistics do not include that wait. The
// limiter also adds a quarter of a second to each window, and arikawa repeats requests that fail with a server error up
// to four times, messages included.
//
// # Contexts
//
// The context of client.WithContext bounds the wait and carries the options of package buckets, such as
// buckets.ContextWithPriority. Use buckets.ContextWithMaxWait(ctx, 0) instead of rate.AcquireOptions.DontWait, which
// belongs to arikawa's limiter and has no effect after Prepare.
//
// # Uploads
//
// arikawa produces a body while the body is being sent, so arikawa cannot send it again. The transport buffers bodies
// up to a size (httpclient.WithBufferedBodies) and can repeat them; a request with a larger body fails if it gets a
// 429. Raise that size for larger uploads.
//
// # Errors
//
// errors.As finds *ratelimits.TooLongError and the transport's other errors in arikawa's errors; errors.Is finds
// context.DeadlineExceeded and context.Canceled. Error responses of Discord are an *httputil.HTTPError, as without the
// transport.
package arikawalimit

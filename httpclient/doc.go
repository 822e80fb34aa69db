// Package httpclient has a [Transport]: an http.RoundTripper that sends each request to Discord as soon as the known
// limits allow it, and repeats the request after a 429. Put it under any library that takes an *http.Client.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(time.Minute))
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//
// Package [github.com/ratelight/ratelight/httpclient/rest] is a small REST client on top of the transport, for programs
// without a library.
//
// # Which requests are limited
//
// Requests to discord.com, discordapp.com and their subdomains are limited, except those to the media hosts.
// [WithHosts] adds other hosts: a proxy, a test, a compatible server. The host is that of the request's URL. All other
// requests pass unchanged, so the same client can be used for attachments and other services. A proxy that forwards to
// Discord shares Discord's limits: say so in WithHosts. A proxy may be mounted below a path: the part of the path
// before /api/v10 is ignored.
//
// # Other servers
//
// A server that is not compatible with Discord speaks a [Dialect] of its own ([WithDialect]). It says which limit a
// response is about, and whether a limit has refused the request. Package httpclient/dialects has that of GitHub and
// that of the IETF's RateLimit fields. A refusal is handled like a 429, whatever its status.
//
// # Timeouts
//
// Leave http.Client.Timeout at 0, because that timeout includes the time in queues. Bound requests by their contexts. A
// request whose deadline lies before the end of its predicted wait fails at once. The prediction includes the queue but
// no round trips, so no request is rejected that could have been sent in time. The real wait may be longer by a round
// trip for each window. While the first request of a route is in flight, the wait of the route's other requests cannot
// be predicted: they wait for the response, however small the max rate limit is.
//
// [WithAttemptTimeout] ends attempts that make no progress. Only the context bounds the whole time of an attempt: a
// server that sends a byte from time to time prolongs the attempt, and so does a response that is neither read nor
// closed.
//
// # Options for one request
//
// The options of a request are values of its context: [buckets.ContextWithMaxWait] (0: do not wait at all),
// [buckets.ContextWithOrdered], [buckets.ContextWithPriority] (ahead of requests that came to its bucket up to 3 s
// earlier), [buckets.ContextWithGroup] (groups take turns), [ContextWithLatest] and [buckets.ContextWithSupersedes] (of
// such requests, only the newest is sent), [ContextWithRetryMode] and [ContextWithAttemptTimeout].
//
// # What a 429 does
//
//	class      shown by                                       what waits
//	user       scope user and nothing remaining, or no scope  the bucket's requests
//	shared     scope shared                                   the bucket's requests; the limit is remembered
//	sub-limit  scope user although the bucket has room        requests with the same route, parameters and body fields
//	global     scope global, or global: true                  all with that Authorization, except interactions
//	edge       Cloudflare's page, or JSON without             all to this server, also interactions
//	           retry_after; no scope
//
// After the wait the request is repeated alone; the other waiting requests follow when it has succeeded. The wait is
// the retry_after of the body; the header is a rounded copy of it. If the two contradict each other, the longer one
// counts, but a body above its header is ignored if it is in milliseconds or the response has no scope. While the body
// is read, all requests wait to which the headers may apply. A refusal at the edge that does not say when to retry is
// not repeated, but returned as *[ratelimits.EdgeError].
//
// If a limit refuses several requests in a row, the wait grows, up to about a minute. A wait above a day is cut to a
// day. [Transport.LiftHolds] ends all holds except those that processes share. A wait above the max rate limit is a
// *[ratelimits.TooLongError]. Only the request's context bounds the number of retries after 429s. If the body can be
// sent only once (see Bodies), the 429 is returned unchanged.
//
// # What is retried after a failure
//
// Temporary failures are retried: broken connections, attempts without progress, and the statuses 500, 502, 503, 504,
// 520 to 524 and 529. A request is repeated only if it does no harm when Discord processes it twice: GET, HEAD,
// OPTIONS, PUT, DELETE, messages with a nonce and enforce_nonce (see [WithNonce]), and requests that were certainly not
// sent. With [UnsafeRetries] ([WithRetryMode], [ContextWithRetryMode]) all other requests are retried, too. Permanent
// errors are returned at once: untrusted certificates, unusable URLs and headers, bodies whose length differs from the
// Content-Length. Turn off the retries of a library above the transport: if the library repeats POSTs, messages are
// sent twice.
//
// On HTTP/1.1, which proxies and other servers use, net/http itself repeats a GET when a kept connection breaks. The
// server may then count two requests for one attempt. Over HTTP/2, which Discord uses, this does not happen.
//
// # Bodies
//
// A body without GetBody is read into memory before its request is queued, up to 1 MiB, and sent with its length.
// [WithBufferedBodies] sets this bound and one for the memory of all bodies together. A body that is larger, or for
// which there is no room, is sent once, and its request is queued when the first byte of the body has arrived. A body
// that is not in memory is sent by a separate goroutine. If the source of the body blocks and Close does not end the
// read, that goroutine stays blocked, but the request still fails in time.
//
// The transport reads the body of a 429 (up to 64 KiB, for at most 5 s). It inspects the first 4 KiB of a 401 without
// Via, and of a webhook's 404, as they arrive; closing such a body may take up to 100 ms. The transport reads no other
// body of a returned response. If a request sets Accept-Encoding, the body of its response is returned unchanged, and
// gzip and deflate are decoded only for the inspection.
//
// # Credentials
//
// Requests with different Authorization headers have different buckets. Only keyed hashes of the header are kept, and
// no log, error, hook or snapshot contains the header. The header is not sent if the path has a token, which is then
// the credential. A credential that Discord has refused rests for ten minutes: it is not used. Requests with it,
// including those that wait, fail with *[CredentialError]:
//
//	answer                                      what rests
//	401                                         the Authorization on that route, with that channel, guild or webhook
//	401s of two routes without a success        the Authorization everywhere
//	between them
//	401 about a token in the path               that token
//	404 with code 10015 of a webhook            that webhook
//
// A response counts if it is Discord's: it has the header Via and is not HTML, or it is JSON with a code. Responses of
// other servers make no credential rest. The success of a request that was sent later than the refused one ends the
// rest on its route and the rest everywhere. No rest is permanent, and a new process begins without any. A single 401
// does not prove that a token is invalid, because some routes answer every bot with 401. A 407 comes from a proxy and
// does not count.
//
// All 401s count against the budget of invalid requests. Each credential that has worked within a week has its own
// share of the budget. All other Authorizations share one part of it, and so do all other tokens in paths
// ([buckets.Request.Unproven]): invented credentials do not use up the shares of real ones. [Transport.ResetCredential]
// lets an Authorization be used again at once, and [Transport.LiftCredential] a credential that
// [Transport.RestingCredentials] lists. Redirects from a limited host to another host never carry credentials, cookies
// or the address of the first host.
//
// # Errors
//
//	*ratelimits.TooLongError     the predicted wait is too long. If it exceeds a deadline, the error also matches
//	                             context.DeadlineExceeded, and Timeout() is true
//	*ratelimits.QueueFullError   the queue is full
//	*ratelimits.EdgeError        refused in front of Discord, without a time to retry
//	*ratelimits.BudgetError      the budget of invalid requests is used up
//	*ratelimits.SupersededError  a newer request took its place ([ContextWithLatest])
//	*CredentialError             Discord has refused the credential within ten minutes
//	*AttemptTimeoutError         an attempt made no progress for too long; Timeout() is true
//	*RetryError                  no response after all retries, or the body can be sent only once; wraps the last
//	                             error. A 5xx that stays is returned as it came
//	buckets.ErrClosed            the transport is closed
//	*routes.PathError            a malformed path or method; endpoints that are not in the catalogue are fine
//	context.Canceled and         the context ended while the request waited
//	context.DeadlineExceeded
//
// http.Client wraps these errors in a *url.Error. Its text contains the whole address, and so the token of a webhook.
// Log [Redact] of the error instead; errors.As and errors.Is still work on the result.
//
// # Limits
//
//   - Requests are sent in the order in which they came, but several are in flight, and the network may reorder them.
//     If they must arrive in that order, use the ordered mode ([buckets.WithOrdered]).
//   - A request counts against the global limit for two seconds at most. With longer round trips global 429s are
//     possible.
//   - Each process counts only its own requests unless [buckets.WithShared] is used. It notices other processes with
//     the same token only in X-RateLimit-Remaining. A restart forgets what was sent before and may cause a 429 in the
//     first seconds, unless package statefile keeps the state ([Transport.WriteState], [Transport.RestoreState]).
//   - If the limiter of [WithLimiter] is no manager, there is no budget of invalid requests, and
//     [Transport.Manager] returns nil.
//   - The transport sets no User-Agent. Discord wants "DiscordBot (url, version)", and may refuse others.
//
// # Shutdown
//
// [Transport.Shutdown] rejects new requests, waits until the earlier ones have finished, and closes the transport.
//
// # Metrics
//
// Package httpclient/metrics exports the transport and its manager to Prometheus:
//
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))
//
// Without that package, transport.Manager().Stats() has counters (granted, waited, wait time, 429s by class, refusals
// by reason, lost, evicted, invalid requests) and gauges (waiting, in flight, buckets, routes). Its result can be
// published with expvar:
//
//	expvar.Publish("ratelight", expvar.Func(func() any { return transport.Manager().Stats() }))
//
// transport.Manager().Buckets() iterates over snapshots of all buckets, which say why each bucket waits. Status() has
// the buckets with the longest waits, and package status shows them as a page.
//
// Package httpclient/trace records requests for "bench tune", which chooses the max rate limit. A Grafana dashboard and
// alert rules for Prometheus are in httpclient/proxy/monitoring. None of these contain tokens. For errors of
// http.Client see [Redact].
//
// # Trying it without Discord
//
// Package httpclient/discordtest is a fake Discord for tests, examples and programs:
//
//	fake := discordtest.NewServer(nil)
//	defer fake.Close()
//	transport := httpclient.NewTransport(httpclient.WithBase(fake.Client().Transport))
package httpclient

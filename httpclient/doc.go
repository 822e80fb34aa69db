// Package httpclient has a [Transport]: an http.RoundTripper that sends each request to Discord when Discord is certain to
// accept it, and repeats it if it is refused all the same. Put it under any library that takes an *http.Client.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(time.Minute))
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//
// Package [github.com/ratelight/ratelight/httpclient/rest] is a small REST client on top of it, for programs without a library.
//
// # Which requests are limited
//
// Those to discord.com, discordapp.com and their subdomains except the media hosts, by the host of the request's URL, and
// those to the hosts that [WithHosts] adds: a proxy, a test, a compatible server. All other requests pass untouched, so one
// client can be used for attachments and other services, too. A proxy that forwards to Discord shares Discord's limits:
// say so there. It may be mounted below a path: the part before /api/v10 is ignored.
//
// # Timeouts
//
// Leave http.Client.Timeout at 0: it counts the time in queues. Bound requests by their contexts. A request whose deadline
// lies before its predicted wait fails at once. The prediction counts the queue, but no round trips, so that nothing is
// refused that could have been in time: a request that it lets in may still wait a round trip longer for each window. [WithAttemptTimeout] ends attempts that make no
// progress; nothing but the context bounds how long an attempt takes in all, so a server that sends a byte now and then
// keeps it alive, and so does a response that is neither read nor closed. As long as no wait can be predicted, because the
// first request of a route is still under way, requests wait for that request, however small the max rate limit is.
//
// # Options for one request
//
// They are values of its context: [buckets.ContextWithMaxWait] (0: do not wait at all), [buckets.ContextWithOrdered],
// [buckets.ContextWithPriority] (ahead of what came to its bucket up to 3 s earlier), [buckets.ContextWithGroup]
// (groups take turns), [ContextWithUnsafeRetries], [ContextWithoutRetries] and [ContextWithAttemptTimeout].
//
// # What a 429 does
//
//	class      told by                                        what waits
//	user       scope user and nothing remaining, or no scope  the bucket
//	shared     scope shared                                   the bucket; how much went through is remembered
//	sub-limit  scope user although the bucket has room        requests with the same route, parameters and body fields
//	global     scope global, or global: true                  everything with that Authorization, but interactions
//	edge       Cloudflare's page, or JSON without             everything to this server, interactions too
//	           retry_after; no scope
//
// The request is repeated when the wait is over, first and alone; the others follow when it has succeeded. Only an edge
// refusal without a time to come back is returned, as *[ratelimits.EdgeError]. The wait is the precise one of the body, of
// which the header is a rounded copy. If the two contradict each other, the longer one counts, but a body above its header
// is ignored if it is in milliseconds or the response has no scope. Everything the headers may apply to waits while the body is
// read. If a limit refuses several times in a row, the wait grows, up to about a minute. A wait above a day is cut to a day.
// [Transport.LiftHolds] ends all holds but those that processes share. A wait above the max rate limit is a
// *[ratelimits.TooLongError]. Nothing but the request's context bounds the number of such retries. A request whose body
// can be sent only once, see Bodies, gets the 429 as it came.
//
// # What is retried after a failure
//
// Transient failures: broken connections, attempts without progress, and the statuses 500, 502, 503, 504, 520 to 524 and
// 529. Only requests are retried that do no harm when they are carried out twice: GET, HEAD, OPTIONS, PUT, DELETE,
// messages with a nonce and enforce_nonce (see [WithNonce]), and requests that certainly never left. [WithUnsafeRetries] and
// [ContextWithUnsafeRetries] allow the others. Permanent errors are returned at once: untrusted certificates, unusable
// URLs and headers, bodies whose length is not what their request says. A library above that retries by itself retries
// POSTs as well, and so sends messages twice: turn that off.
//
// On HTTP/1.1, which proxies and other servers speak, net/http itself repeats a GET when a kept connection breaks, so the
// server may count two requests where one was sent. With HTTP/2, and so with Discord, this does not happen.
//
// # Bodies
//
// A body without GetBody is read into memory before its request is queued, up to [WithMaxBufferedBody], and sent with
// its length; [WithMaxBufferedTotal] bounds all of them together. One that is larger, or for which there is no room, is
// sent once, and its request is queued when its first byte is there. A body that is not in memory is sent by a
// goroutine of its own. If its source gives nothing more and Close does not end the read, that goroutine stays until
// the source gives something; the request fails in time all the same.
//
// Bodies of responses are not read, with these exceptions: a 429's (up to 64 KiB, for at most 5 s), and the first 4 KiB of
// a 401's without Via and of a webhook's 404, which are looked at as they come; Close may then take up to 100 ms.
// A request that sets Accept-Encoding itself gets bodies as they came. For that look only, gzip and deflate are undone.
//
// # Credentials
//
// The Authorization header separates buckets. Only keyed hashes of it are kept, and no log, error, hook or snapshot
// shows it. It is not sent where the path has a token, which is then the credential. A credential that Discord has
// refused rests for ten minutes; its requests, also those that wait, fail with *[CredentialError]:
//
//	answer                                      what rests
//	401                                         the Authorization on that route, with that channel, guild or webhook
//	401s of two routes without a success        the Authorization everywhere
//	between them
//	401 about a token in the path               that token
//	404 with code 10015 of a webhook            that webhook
//
// An answer counts if it is Discord's: it has the header Via and is no page of HTML, or is JSON with a code. Other
// servers than Discord stop nothing. A success of a request that left later ends a rest of its route, and one
// everywhere. Nothing is stopped for ever, and a new process knows of no rest. A single 401 proves nothing: some routes
// answer it to every bot. All of them count for the budget of invalid requests. Credentials that have worked within a
// week have shares of it of their own; all others have one together ([buckets.Request.Unproven]), so that invented ones
// stop nobody. A 407 is a proxy's. [Transport.ResetCredential] lets an Authorization be used again at once,
// [Transport.LiftCredential] what [Transport.RestingCredentials] lists. Redirects never carry credentials, cookies or
// the address of a limited host to another.
//
// # Errors
//
//	*ratelimits.TooLongError     the predicted wait is too long. If a deadline was the bound, it also matches
//	                             context.DeadlineExceeded, and Timeout() is true
//	*ratelimits.QueueFullError   as many requests wait as may
//	*ratelimits.EdgeError        refused in front of Discord, without a time to come back
//	*ratelimits.BudgetError      too many invalid responses of late
//	*CredentialError             this credential has been refused within ten minutes
//	*AttemptTimeoutError         an attempt made no progress for too long; Timeout() is true
//	*RetryError                  no response after all retries, or the body can be sent only once; wraps the last error.
//	                             A 5xx that stays is returned as it came
//	buckets.ErrClosed            the transport is closed
//	*routes.PathError            a malformed path or method; endpoints that are not in the catalogue are fine
//	context.Canceled and         the context ended while the request waited
//	context.DeadlineExceeded
//
// http.Client wraps them in a *url.Error, whose text has the whole address, and so a webhook's token. Log what [Redact]
// makes of it; errors.As and errors.Is go on working.
//
// # Limits
//
//   - Requests leave in the order in which they came, but several are in flight, and the network may reorder them. Where
//     they must arrive in sequence, use the ordered mode ([buckets.WithOrdered]).
//   - A slot of the global limit is kept for two seconds at most: with longer round trips global 429s are possible.
//   - Limits are kept per process unless [buckets.WithShared] is used: other processes with the same token are noticed by
//     what they leave over. A restart forgets what was sent before it, and may draw a 429 in the first seconds, unless package statefile
//     keeps it ([Transport.WriteState], [Transport.RestoreState]).
//   - With [WithLimiter] there is no budget of invalid requests, and [Transport.Manager] returns nil.
//   - The transport sets no User-Agent. Discord wants "DiscordBot (url, version)", and may refuse others.
//
// # Shutdown
//
// [Transport.Shutdown] takes no new requests, lets those finish that wait or are in flight, and closes the transport.
//
// # Metrics
//
// Package httpclient/metrics shows the transport and its manager to Prometheus:
//
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))
//
// Without it, transport.Manager().Stats() has counters (granted, waited, wait time, 429s by class, refusals by reason, lost, evicted,
// invalid requests) and gauges (waiting, in flight, buckets, routes), and can be given to expvar as it is:
//
//	expvar.Publish("ratelight", expvar.Func(func() any { return transport.Manager().Stats() }))
//
// transport.Manager().Buckets() iterates over snapshots of all buckets, which say what each waits for; Status() has those with the longest
// waits, and package status makes a page of it.
//
// Package httpclient/trace records requests for "bench tune", which chooses the max rate limit. A Grafana dashboard and alert rules for
// Prometheus are in httpclient/proxy/monitoring. None of all this contains tokens; for errors of http.Client see [Redact].
//
// # Trying it without Discord
//
// Package httpclient/discordtest is a fake Discord, also for programs:
//
//	fake := discordtest.NewServer(nil)
//	defer fake.Close()
//	transport := httpclient.NewTransport(httpclient.WithBase(fake.Client().Transport))
package httpclient

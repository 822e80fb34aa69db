// Package httpclient provides a [Transport], an http.RoundTripper that sends each request to Discord as soon as the
// known limits allow, and sends the request again after a 429. Put the transport under any library that takes an
// *http.Client.
//
//	transport := httpclient.NewTransport(httpclient.WithMaxRateLimit(time.Minute))
//	defer transport.Close()
//	client := &http.Client{Transport: transport}
//
// Package [github.com/ratelight/ratelight/httpclient/rest] is a small REST client on top of the transport, for programs
// that use no Discord library.
//
// # Which requests are limited
//
// Requests to discord.com, discordapp.com and their subdomains are limited, except requests to the media hosts
// (routes.IsMediaHost). [WithHosts] adds other hosts, such as a proxy, a test server or a server that is compatible
// with Discord. Requests to all other hosts pass unchanged, so that a client can use the same transport to download
// attachments and to use other services. If a proxy is mounted below a path, the part of the path before /api/v10 is
// ignored.
//
// # Other servers
//
// A server that is not compatible with Discord needs a [Dialect] of its own ([WithDialect]). Package
// httpclient/dialects has a Dialect for GitHub and one for the IETF's RateLimit header fields.
//
// # Timeouts
//
// Leave http.Client.Timeout at 0, because that timeout includes the time in queues. Bound the time of a request by its
// context. If the deadline of a request is earlier than the end of its predicted wait, the request fails at once. The
// prediction includes the requests ahead in the queue, but not the time of their round trips. Therefore a request that
// could be sent in time is never rejected, but the real wait may be longer, by one round trip for each window.
//
// [Attempts].Timeout ends attempts that make no progress.
//
// # Options for one request
//
// The options of a request are values of its context:
//   - [buckets.ContextWithMaxWait]: the longest wait that is accepted (0: do not wait at all)
//   - [buckets.ContextWithOrdered]: the requests of a bucket are sent one at a time
//   - [buckets.ContextWithPriority]: the request is sent before other requests that came to its bucket up to 3 s
//     earlier
//   - [buckets.ContextWithGroup]: groups of requests take turns
//   - [ContextWithLatest] and [buckets.ContextWithSupersedes]: of several waiting requests for the same thing, only the
//     newest is sent
//   - [ContextWithAttempts]: retries, pauses and timeout
//
// # What a 429 does
//
//	class      shown by                                  what waits
//	global     scope global, or global: true             all requests with that Authorization, except interactions
//	shared     scope shared                              the bucket's requests; the limit is remembered
//	edge       no scope and no bucket, and a page of     all requests to this server, even interactions
//	           Cloudflare or a body without retry_after
//	sub-limit  scope user although the bucket has room   requests with the same route, parameters and body fields
//	user       all other 429s                            the bucket's requests
//
// After the wait, the refused request is sent again alone. When it has succeeded, the other waiting requests are sent.
// The length of the wait is the retry_after in the body, because the header Retry-After is a rounded copy of
// retry_after. If the two contradict each other, the longer time counts. However, a retry_after that is longer than
// Retry-After does not count if it is in milliseconds or if the response has no scope. Until the body has been read,
// all requests wait to which the 429 may apply according to its headers. If a refusal at the edge (the network in front
// of Discord) does not say when to retry, the request is not sent again, and fails with *[ratelimits.EdgeError].
//
// After the third refusal in a row by the same limit, the wait is at least about 250 ms. This minimum doubles with each
// further refusal, up to about a minute. A wait of more than a day is reduced to a day. [Transport.LiftHolds] ends all
// these waits (holds). If the wait would exceed the max rate limit, the request fails with a
// *[ratelimits.TooLongError]. Otherwise the request is sent again after every 429 until its context ends.
//
// # What is retried after a failure
//
// After a temporary failure (see [Attempts]), a request is repeated (retried) if it does no harm when Discord processes
// it twice (see [SafeRetries]). With [UnsafeRetries] ([WithAttempts], [ContextWithAttempts]) all other requests are
// also retried. Permanent errors are returned at once: untrusted certificates, unusable URLs and headers, bodies whose
// length differs from the Content-Length. Turn off the retries of a library above the transport, because a library that
// repeats a POST may send a message twice.
//
// # Bodies
//
// If a request has no GetBody, its body of up to 1 MiB is read into memory before the request is queued, and is sent
// with a Content-Length. [WithBufferedBodies] sets this bound, and a bound on the memory of all bodies together. If a
// body exceeds the first bound, or if there is no room for it, the body can be sent only once. Its request is queued
// when the first byte of the body has arrived.
//
// The transport reads the body of a 429, up to 64 KiB, for at most 5 s. If the server has a [Dialect], the transport
// also reads the body of a 403, and of each response that the Dialect takes for a refusal. The first 4 KiB of a 401
// without the header Via, and of a webhook's 404, are inspected as they arrive, to learn whether Discord has refused
// the credential. Therefore closing such a body may take up to 100 ms. The transport does not read the bodies of other
// responses that it returns. If a request sets Accept-Encoding, the body of its response is returned unchanged, and
// gzip and deflate are decoded only for the inspection.
//
// # Credentials
//
// Requests with different Authorization headers have different buckets. Only keyed hashes of the header are kept, and
// no log, error, hook or snapshot contains the header. If the path has a token, that token is the credential, and the
// header is not sent unless its scheme is Basic. A credential that Discord has refused rests for ten minutes, which
// means that it is not used. All requests with this credential fail with *[CredentialError], including requests that
// are already waiting:
//
//	response                                    what rests
//	401                                         the Authorization on that route, with that channel, guild or webhook
//	401s on two routes, with no success of the  the Authorization everywhere
//	Authorization between them
//	401 to a request with a token in the path   that token
//	404 with code 10015 to a webhook's request  that webhook
//
// A refusal counts only if it comes from Discord. This is the case if the response has the header Via and is not HTML,
// or if its body is JSON with a code. Responses of other servers make no credential rest. If a request with the same
// credential that was sent after the refused one succeeds, this ends the credential's rest on the route of the
// successful request (with its channel, guild or webhook), and also a rest on all routes. No rest is permanent, and a
// new process begins without any rest. An Authorization rests everywhere only after 401s on two routes, because some
// routes answer every bot with 401. A 407 comes from a proxy and does not count.
//
// All 401s count against the budget of invalid requests ([buckets.WithInvalidBudget]). Each credential that has worked
// within the last week has its own share of the budget. All other Authorizations together have one share, and all other
// tokens in paths together have another share ([buckets.Request.Unproven]), so that invented credentials do not use up
// the shares of real ones. Redirects from a limited host to another host never carry credentials, cookies or a Referer.
//
// # Errors
//
//	*ratelimits.TooLongError     the predicted wait is too long. If it would end after the request's deadline, the error
//	                             also matches context.DeadlineExceeded, and Timeout() is true
//	*ratelimits.QueueFullError   the queue is full
//	*ratelimits.EdgeError        refused in front of Discord, without a time at which to retry
//	*ratelimits.BudgetError      the budget of invalid requests is used up
//	*ratelimits.SupersededError  a newer request took the place of this one ([ContextWithLatest])
//	*CredentialError             Discord has refused the credential within the last ten minutes
//	*AttemptTimeoutError         an attempt made no progress for too long; Timeout() is true
//	*RetryError                  no response after all retries, or the body can be sent only once; wraps the last
//	                             error. A 5xx after the last retry is returned unchanged
//	buckets.ErrClosed            the transport is closed
//	*routes.PathError            the path or method is malformed; an unknown endpoint is no error
//	context.Canceled and         the context ended while the request waited
//	context.DeadlineExceeded
//
// http.Client wraps these errors in a *url.Error. The text of a *url.Error contains the whole address, which includes
// the token of a webhook. Log [Redact] of the error instead; errors.As and errors.Is still work on the result.
//
// # Limits
//
//   - Requests are sent in the order in which they came, but several are in flight, and the network may reorder them.
//     If the requests must arrive in the order in which they came, use the ordered mode ([buckets.WithOrdered]).
//   - A request counts against the global limit for at most two seconds after it was sent. Therefore global 429s are
//     possible if requests take more than a second to reach Discord.
//   - Each process counts only its own requests unless [buckets.WithShared] is used. It notices the requests of other
//     processes with the same token only by the header X-RateLimit-Remaining. After a restart, a process does not know
//     which requests were sent before, so that 429s are possible in the first seconds. Package statefile prevents this,
//     because it keeps the state ([Transport.WriteState], [Transport.RestoreState]).
//   - The transport sets no User-Agent. Discord wants "DiscordBot (url, version)", and may refuse requests with another
//     User-Agent or none.
//
// # Metrics
//
// Package httpclient/metrics exports the transport and its manager to Prometheus:
//
//	prometheus.MustRegister(metrics.New(transport.Manager(), transport))
//
// Without that package, publish the result of transport.Manager().Stats() with expvar:
//
//	expvar.Publish("ratelight", expvar.Func(func() any { return transport.Manager().Stats() }))
//
// transport.Manager().Buckets() iterates over snapshots of all buckets, which say why the requests of a bucket wait.
// transport.Manager().Status() returns the buckets with the longest waits, and package status shows them on a page.
//
// Package httpclient/trace records requests for the command "bench tune", which recommends a max rate limit. A Grafana
// dashboard and alert rules for Prometheus are in httpclient/proxy/monitoring. Nothing that is described in this
// section contains a token.
//
// # Trying it without Discord
//
// Package httpclient/discordtest is a fake Discord for tests, examples and programs:
//
//	fake := discordtest.NewServer(nil)
//	defer fake.Close()
//	transport := httpclient.NewTransport(httpclient.WithBase(fake.Client().Transport))
package httpclient

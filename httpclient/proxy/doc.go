// Package proxy has a [Handler]: an http.Handler that forwards requests to Discord through a transport of package
// httpclient, so that bots in any language observe Discord's limits. A bot only changes its library's base URL from
// https://discord.com to the URL of the handler.
//
//	handler, err := proxy.New()
//	if err != nil { … }
//	defer handler.Close()
//	http.ListenAndServe("127.0.0.1:8080", handler)
//
// The command in ratelight-proxy serves such a handler, with flags for all settings that an operator needs.
//
// # What is forwarded
//
// Every request with a path of Discord's API is forwarded to one fixed upstream. /api and the version may be missing;
// the handler then adds /api/v10. Method, the escapes of the path, query, headers with all their values, body, trailers
// and 1xx responses are not changed. The handler removes headers and trailers that are for the connection, those that
// other proxies added (Forwarded, X-Forwarded-*, Via, Cf-* and the like), X-Ratelight-*, and Expect, which it fulfils
// itself. From responses it removes Alt-Svc and Strict-Transport-Security, which are about Discord's own address. It
// adds no credential, and the User-Agent is the client's.
//
// Bodies stream. A body of up to [WithMaxBufferedBody] is read before its request is queued. The request can then be
// repeated after a 429, and a disconnect of the client is noticed. A request with a larger body is queued when the
// first byte has arrived, and a 429 to it is passed on unchanged. The handler repeats no failed request unless
// [WithTransport] says otherwise: client libraries repeat requests themselves. A client is expected to send 4 KiB of
// its body per second; if it is more than 10 seconds behind, it gets a 400. An early answer to an upload is passed on
// at once; over HTTP/1 the client then has 5 s to send the rest, and the connection is closed. If a client reads
// nothing of its response for 30 seconds, its connection is closed.
//
// # Waits
//
// A request waits in the handler until Discord will accept it. If its predicted wait is longer than [WithMaxWait], or
// than its header X-Ratelight-Max-Wait (in seconds), it gets a 429 like Discord's at once. The header is bounded by
// [LongestWait], or by WithMaxWait if the request's body is not kept in memory.
//
// Requests with the same header X-Ratelight-Group, for example a guild's id, form a group. Groups take turns: see
// buckets.Request.Group.
//
// A request with the header X-Ratelight-Latest: true takes the place of an older request with this header and the same
// Authorization, method and path that still waits, such as an earlier edit of the same message. The older request gets
// a 409 at once: see httpclient.ContextWithLatest.
//
// When a client disconnects, its request leaves the queue at once and is not sent. If the request was already sent, the
// handler waits up to 15 seconds for the answer, because Discord counts the request if it is invalid. Over HTTP/1 a
// disconnect is noticed only after the body has been read. A body that is not kept in memory is read when the request's
// turn comes, so the wait of its request has the tighter bound. After a disconnect the upstream then gets a part of the
// request, never a complete one.
//
// # Answers of the proxy
//
// The proxy's own answers have the header X-Ratelight-Proxy with the reason, and Discord's form of an error,
// {"message", "code": 0}. No such answer is a 401 or 403.
//
//	status  X-Ratelight-Proxy    reason
//	429     too-long             the predicted wait is too long; with Retry-After, retry_after, known X-RateLimit-*
//	429     edge                 Cloudflare has refused this address
//	429     invalid-budget       too many 401s, 403s and 429s recently: Discord would ban the address
//	429     unverified           too many new Authorizations recently that have not succeeded yet
//	409     superseded           a newer request took its place, so that it was not sent (again)
//	503     queue-full           the maximum number of requests waits already
//	503     shared-unavailable   the store of shared limits cannot be reached
//	503     credential           Discord has refused this credential, with the 401 that the message names
//	404     credential           the webhook does not exist, as Discord has said before; code 10015
//	503     closed               the proxy is shutting down
//	504     timeout              no progress, or the request's own deadline has passed
//	502     unreachable          Discord could not be reached, or the connection broke
//	501     no-path, upgrade     the path is missing, or the request asks for another protocol
//	400     origin               a web page in a browser has sent the request
//	421     host                 RequireHost does not allow the name in the URL
//	400     bad-request          a malformed path, header or body, or a request for an HTTP proxy
//	405     method               CONNECT
//
// # Credentials
//
// Every Authorization has limits of its own. An Authorization without a success within a week may be invalid. At most a
// thousand such Authorizations may be tried in ten minutes, which bounds the memory for a flood of invented ones.
// Together they leave at least as much of the budget of invalid requests as they use, and so do requests without an
// Authorization. Authorizations and webhooks that have worked are not affected, not even by a restart if the state is
// kept. The handler keeps only keyed hashes of them.
package proxy

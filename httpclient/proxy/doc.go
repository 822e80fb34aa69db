// Package proxy has a [Handler]: an http.Handler that forwards requests to Discord through a transport of package
// httpclient, so that bots in any language observe Discord's limits. In a bot, only the base URL of the library has to
// change, from https://discord.com to the URL of the handler.
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
// Every request with a path of Discord's API is forwarded to one fixed server, the upstream. If /api or the version is
// missing in the path, the handler adds the missing part (/api/v10). The method, the escapes in the path, the query,
// the body and 1xx responses are passed on unchanged. Headers and trailers are also passed on, except those that are
// for one connection only. From requests, the handler also removes the headers and trailers that other proxies add
// (Forwarded, X-Forwarded-*, Via, Cf-* and the like), X-Ratelight-*, and Expect, because the handler itself sends the
// 100 Continue. From responses, the handler also removes Alt-Svc and Strict-Transport-Security, which apply to
// Discord's own address. The handler adds no credential and no User-Agent.
//
// A body that is no larger than [WithMaxBufferedBody] allows is read before its request is queued. Therefore the
// request can be repeated after a 429, and the handler notices if the client disconnects while the request waits. A
// larger body is streamed: the request is queued when the first byte has arrived, and a 429 is passed on to the client.
// Failed requests are repeated only if [WithTransport] says so, because client libraries repeat failed requests
// themselves. A client must send at least 4 KiB of a body per second. If the client falls more than 10 seconds behind
// this rate, the request gets a 400. If Discord answers before the end of an upload, the answer is passed on at once.
// Over HTTP/1, the client then has 5 s to send the rest of the body, and the connection is closed afterwards. If a
// client reads nothing of a response for 30 seconds, the connection is closed (over HTTP/2, only the stream).
//
// # Waits
//
// A request waits in the handler until Discord is certain to accept it. If the predicted wait is longer than the max
// wait, the request gets a 429 in Discord's form at once. The max wait is set by [WithMaxWait]. A request can set its
// own max wait, in seconds, with the header X-Ratelight-Max-Wait. The value of the header is capped at [LongestWait].
// If the body of the request is not kept in memory, the value is capped at the max wait of WithMaxWait.
//
// Requests with the same value of the header X-Ratelight-Group, for example the id of a guild, form a group. Groups
// take turns, see buckets.Request.Group.
//
// The header X-Ratelight-Latest: true is for requests of which only the newest matters, such as edits of a message. If
// such a request arrives while an older one with the same Authorization, method and path waits, the newer request takes
// the place of the older one. The older request gets a 409 at once. See httpclient.ContextWithLatest.
//
// When a client disconnects, its request leaves the queue at once and is not sent. If the request was already sent, the
// handler waits up to 15 seconds for the answer, which says whether the request counts as invalid. Over HTTP/1, a
// disconnect is noticed only after the body has been read. A body that is not kept in memory is read only when the
// request may be sent. If the client has disconnected by that time, Discord gets a part of the request, but never a
// complete one.
//
// # Answers of the proxy
//
// The proxy's own answers have the header X-Ratelight-Proxy, which contains the reason, and a body in the form of
// Discord's errors, {"message", "code": 0}. None of these answers is a 401 or 403.
//
//	status  X-Ratelight-Proxy    reason
//	429     too-long             the predicted wait is too long; with Retry-After, retry_after, X-RateLimit-* if known
//	429     edge                 Cloudflare has refused this address
//	429     invalid-budget       too many 401s, 403s and 429s recently: Discord would ban the address
//	429     unverified           too many new Authorizations were tried recently and have not succeeded yet
//	409     superseded           a newer request took the place of this one before this one was sent, or sent again
//	503     queue-full           the maximum number of requests already waits
//	503     shared-unavailable   the store of shared limits cannot be reached
//	503     credential           Discord has refused this credential with a 401 within ten minutes
//	404     credential           Discord has said within ten minutes that the webhook does not exist (code 10015)
//	503     closed               the proxy is shutting down
//	504     timeout              an attempt made no progress, or the request's own deadline has passed
//	502     unreachable          Discord could not be reached, or the connection broke
//	501     no-path, upgrade     the path is missing, or the request asks for another protocol
//	400     origin               a web page in a browser has sent the request
//	421     host                 RequireHost does not allow the name in the URL
//	400     bad-request          a malformed path or header, a body that breaks off, or a full URL in the request line
//	405     method               CONNECT
//
// # Credentials
//
// Every Authorization has its own limits. An Authorization with which no request has succeeded within a week may be
// invalid. At most a thousand such Authorizations can be tried in ten minutes, because a flood of invented
// Authorizations would otherwise take too much memory. Together, the Authorizations that may be invalid always leave at
// least as much of the budget of invalid requests unused as they use. The same applies to all requests without an
// Authorization, together. These bounds do not apply to Authorizations and webhooks that have worked within a week. If
// the state of the transport is kept, the handler still knows these after a restart. The state contains only keyed
// hashes of them.
package proxy

// Package proxy has a [Handler]: an http.Handler that forwards requests to Discord through a transport of package httpclient, so that
// bots in any language keep to Discord's limits. Only their library's base URL changes: from https://discord.com to the handler's.
//
//	handler, err := proxy.New()
//	if err != nil { … }
//	defer handler.Close()
//	http.ListenAndServe("127.0.0.1:8080", handler)
//
// The command in ratelight-proxy serves one, with flags for all that an operator sets.
//
// # What is forwarded
//
// Everything whose path is one of Discord's API, to one upstream that is fixed. /api and the version may be missing;
// then /api/v10 is put in. Method, the escapes of the path, query, headers with all their values, body, trailers and
// 1xx responses pass as they come. Removed are headers and trailers for the connection, those that other proxies added
// (Forwarded, X-Forwarded-*, Via, Cf-* and the like), X-Ratelight-*, and Expect, which the handler meets itself. From
// responses, Alt-Svc and Strict-Transport-Security are removed, which are about Discord's own address. No credential is
// added, and the User-Agent is the client's.
//
// Bodies stream. One of up to [WithMaxBufferedBody] is read before its request is queued, so that it can be repeated
// after a 429 and the client's disconnect is noticed; a larger one is queued when its first byte is there, and a 429 to
// it is passed on as it came. A failure is not repeated, which the client's library does, unless [WithTransport] says
// otherwise. A client that is more than 10 seconds behind with sending 4 KiB of its body per second gets a 400. An
// early answer to an upload is passed on at once; over HTTP/1 the client has 5 s for the rest, and the connection is
// closed. A client that takes nothing of its response for 30 seconds loses its connection.
//
// # Waits
//
// A request waits here until Discord will accept it. If its predicted wait is longer than [WithMaxWait], or than the header
// X-Ratelight-Max-Wait of the request says in seconds, it is answered at once with a 429 like Discord's. The header's value counts up to
// [LongestWait], with a body that is not kept in memory up to WithMaxWait.
//
// Requests that name a group in the header X-Ratelight-Group, a guild's id say, take turns with those of other groups: see
// buckets.Request.Group.
//
// A client that disconnects gives its place back at once, and its request is not sent. Over HTTP/1 a disconnect cannot be seen before
// the request's body has been read. So a client with a body that is not kept in memory is noticed to be gone when its turn comes,
// which is why those waits are bounded more tightly. What has reached the upstream of its request then is cut off, and never a whole request.
//
// # Answers of its own
//
// They have the header X-Ratelight-Proxy, which says why, and Discord's form of an error, {"message", "code": 0}. None is a 401 or 403.
//
//	status  X-Ratelight-Proxy    reason
//	429     too-long             the predicted wait is too long; with Retry-After, retry_after, and X-RateLimit-* as far as known
//	429     edge                 Cloudflare has refused this address
//	429     invalid-budget       too many 401s, 403s and 429s of late: Discord would ban the address
//	429     unverified           too many Authorizations of late with which nothing has succeeded yet
//	503     queue-full           as many requests wait as may
//	503     shared-unavailable   the store of shared limits cannot be reached
//	503     credential           Discord has refused this credential before, with the 401 that the message names
//	404     credential           the webhook does not exist, as Discord has said before; code 10015
//	503     closed               the proxy is shutting down
//	504     timeout              no progress, or the request's own time was over
//	502     unreachable          Discord could not be reached, or broke off
//	501     no-path, upgrade     there is no path, or it is about another protocol
//	400     origin               a web page in a browser has made the request
//	421     host                 the name in the URL is not one that RequireHost allows
//	400     bad-request          a malformed path, header or body, or a request that is meant for an HTTP proxy
//	405     method               CONNECT
//
// # Credentials
//
// Every Authorization has limits of its own. One with which nothing has succeeded within a week may be wrong: at most a
// thousand of those are let through in ten minutes, so that a flood of invented ones takes no more memory than others
// can spare. With requests without an Authorization they share half of the budget of invalid requests at most.
// Authorizations and webhooks that have worked are not affected, also after a restart that keeps its state. Only keyed
// hashes are kept.
package proxy

// Package ratelimits says what a limit of Discord's REST API is, and nothing else: how a response speaks of it, and
// when the next request may leave. It knows no route and no HTTP client.
//
// # The one idea
//
// A client never sees when the server processed its request. It knows only that this happened between the moment at
// which it sent the request and the moment at which it received the response. Everything here is interval arithmetic on
// those two times: a request is charged to a limit until it is certain that the server has forgotten it. That allows
// several requests in flight in one bucket, without guessing and without drawing a 429. How a bucket fills up again no header
// says: every kind counts as possible until a response has ruled it out, and each is a file of its own (fixed, log, next, leaky).
//
// # Shape
//
// [ParseResponse] turns status, headers and a 429's body into a [Response] with a [Class]. [Window] is the arithmetic of
// one bucket, [Global] that of the limit per authentication, [Throttle] a hold that can only be extended, [Backoff] the
// growing delay between attempts.
//
// Window, Global and Throttle are pure: they take the time as an argument, hold no lock, start no goroutine and own no
// timer, so they can be driven through any schedule without waiting. They are not safe for concurrent use; package
// buckets puts a mutex, a queue and a timer around them.
//
// Times are monotonic: a time.Duration since an origin of the caller's choice, the same for all calls. Wall clocks,
// the server's or ours, decide nothing.
package ratelimits

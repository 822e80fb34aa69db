// Package ratelimits implements the rules of Discord's rate limits: what a response says about a limit, and when the
// next request may be sent. It does not depend on routes or on an HTTP client.
//
// # The one idea
//
// A client never sees when the server processed its request. It knows only that this happened between the moment at
// which it sent the request and the moment at which it received the response. Everything here is interval arithmetic on
// those two times: a request is charged to a limit until it is certain that the server has forgotten it. That allows
// several requests in flight in one bucket without causing a 429. No header says in which way (kind) a bucket refills,
// so every kind counts as possible until a response has ruled it out. The code of each kind is in its own file (fixed,
// log, next, leaky). The reset that a response names is the earliest time at which a bucket opens. Some buckets open
// later than that; late.go learns from 429s how much later.
//
// # Shape
//
// [ParseResponse] turns the status, the headers and the body of a 429 into a [Response] with a [Class]. [Window]
// computes when requests of one bucket may be sent, [Global] when requests of one authentication may. [Throttle] is a
// hold that can only be extended, and [Backoff] computes the growing delays between attempts.
//
// Window, Global and Throttle are pure: they take the time as an argument, hold no lock, start no goroutine and own no
// timer. So a test can drive them through any schedule without waiting. They are not safe for concurrent use; package
// buckets puts a mutex, a queue and a timer around them.
//
// Times are monotonic: a time.Duration since an origin of the caller's choice, which must be the same for all calls.
// Wall clocks are used only for the difference between two times of the server in a response without Reset-After.
//
// Processes that share a Window exchange it as bytes ([Window.Append], [DecodeWindow]). [Window.Shift] moves it from
// the clock of one process to the clock of another; the difference between the clocks need only be known roughly.
package ratelimits

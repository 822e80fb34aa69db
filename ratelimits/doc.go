// Package ratelimits implements the rules of Discord's rate limits: what a response says about a limit, and when the
// next request may be sent. It does not depend on routes or on an HTTP client.
//
// # The one idea
//
// A client never sees when the server processed its request. It knows only that this happened between the moment at
// which it sent the request and the moment at which it received the response. Everything here is interval arithmetic on
// those two times: a request is charged to a limit (it counts against the limit) until the server has certainly
// forgotten the request. So a bucket can have several requests in flight without causing a 429. No header says in which
// way (kind) a bucket refills, so every kind counts as possible until a response has ruled that kind out. The code of
// each kind is in its own file: fixed.go, log.go, next.go or leaky.go. The reset that a response names is the earliest
// time at which a bucket opens. Some buckets open later; the code in late.go learns from 429s how much later.
//
// # Shape
//
// [ParseResponse] turns the status, the headers and the body of a 429 into a [Response] with a [Class]. [Window]
// computes when requests of one bucket may be sent. [Global] does this for all requests of one authentication.
// [Throttle] is a hold that can only be extended, and [Backoff] computes the growing delays between attempts.
//
// Window, Global and Throttle get the time as an argument. They have no lock, start no goroutine and use no timer. So a
// test can run any schedule without waiting. They are not safe for concurrent use: package buckets adds a mutex, queues
// and a timer.
//
// Times are monotonic. A time is a time.Duration since an origin that the caller chooses, and that must be the same for
// all calls. Wall-clock times matter only in a response without Reset-After: then the difference between two times of
// the server's clock is used.
//
// Processes that share a Window exchange it as bytes ([Window.Append], [DecodeWindow]). [Window.Shift] converts the
// times of a Window from one process's clock to another's. The difference between the clocks need only be known
// roughly.
package ratelimits

// Package tune answers an operator's question: which max rate limit (the longest wait that the manager accepts for a
// request) should I set? It replays a load against a simulated Discord, in virtual time, once for each max rate limit
// that it compares.
//
// The caller says how long an answer is of use. If the max rate limit is too small, requests are refused that could
// have left in time. If it is too large, requests wait too long. The recommendation is the smallest max rate limit with
// which no request is refused that could have left in time.
//
// # How a replay works
//
// A replay is a simulation of discrete events. The library's bucket manager and the simulated Discord share a clock
// that jumps from one event to the next. Each waiting request has a goroutine. When the manager answers requests, the
// replay waits for their goroutines before it continues. The load, the round trips and the server are the same for
// every max rate limit.
package tune

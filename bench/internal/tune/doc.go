// Package tune answers an operator's question: which max rate limit should I set? It replays a load against a simulated
// Discord once for each value, in virtual time, and looks at what is refused and how long the rest waits.
//
// # How a replay works
//
// A replay is a simulation of discrete events on one goroutine: the bucket manager of the library and the simulated Discord
// share a clock that jumps from one event to the next. Requests are acquired with AcquireFunc, so that none needs a
// goroutine. The load, the round trips and the server are the same for every value, so that only the value makes a
// difference.
package tune

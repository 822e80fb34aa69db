// Package tune answers an operator's question: which max rate limit should I set? It replays a load against a simulated
// Discord, in virtual time, once for each value.
//
// The caller says how long an answer is of use. A smaller max rate limit may refuse requests that could have left in
// time. A larger one lets requests wait too long. The smallest one that refuses nothing in vain is recommended.
//
// # How a replay works
//
// A replay is a simulation of discrete events. The library's bucket manager and the simulated Discord share a clock
// that jumps from one event to the next. Each waiting request has a goroutine. When the manager answers requests, the
// replay waits for their goroutines before it goes on. Load, round trips and server are the same for every value.
package tune

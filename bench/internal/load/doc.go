// Package load sends requests through Ratelight's transport to a simulated or real server, and measures the result. It
// runs one of the [Scenarios] that judge the limiter, or a load that flags describe ([Config.Scenario]). Such a load is
// a burst, or requests over a long time to look for leaks.
//
// A scenario confronts the whole transport with a simulated Discord in a situation that is known to be hard. It
// compares the result with that of an ideal client. `go run ./bench` runs in real time. This package's tests run in
// testing/synctest bubbles, where no scheduler blurs the result.
//
// # The ideal
//
// The ideal client sends only when it is certain that the server accepts the request. It learns of a reset half a round
// trip after the reset, and its next request arrives another half round trip later. So a cycle takes the window and one
// round trip. This round trip is always the shortest that the latency allows. The ideal client also has to discover
// routes that it does not know. Efficiency is the time of the ideal client divided by the time of the run.
//
// # A machine that stalls
//
// Every run measures how late timers and the simulator are ([WatchStalls]). If a run missed a target and the machine
// stalled, the verdict says so.
package load

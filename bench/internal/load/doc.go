// Package load sends requests through Ratelight's transport to a server, simulated or real, and measures what comes of it: one of the
// [Scenarios] that judge the limiter, or a burst that flags describe ([Config.Scenario]), which is a scenario without a name.
//
// A scenario puts the whole transport before a simulated Discord in a situation that is known to be hard, and compares what happens with
// what an ideal client would have done. [Scenario.Run] runs in whatever time it finds itself in: in real time in `go run ./bench`, in the
// time of a testing/synctest bubble in this package's tests, where all of them together take a second or two and no scheduler blurs the
// result.
//
// # The two ideals
//
// The omniscient client knows the server's state. The certain one must be sure: it learns a reset one way late and sends
// one way early, so a cycle costs it the window and the smallest round trip; and it has to discover a route that it does
// not know. Both have the smallest round trip of the latency for all their requests, which no real client has.
// Efficiency is the time that the ideal client takes divided by the time that ours took.
//
// # A machine that stalls
//
// Every run measures by how much timers and answers came late ([Stalls]). A run that missed only what they can explain is not judged.
package load

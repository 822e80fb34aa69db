// Package soak keeps one transport busy for long, in a world where everything goes wrong that can, and looks for what adds up
// in time: memory, goroutines, requests without an outcome, and tokens in places where they must not be.
//
// # Rounds
//
// A soak is a number of rounds, each with a simulated Discord of its own (so that its memory is not taken for the client's) and
// a load of 1,000 requests a minute. A round ends in a lull, in which everything comes to rest and is measured. Most rounds are
// storms: errors, lost connections, lies, bans, cancelled requests. Every fourth and the last one are calm.
//
// # What can be blamed on the client
//
// The simulator says of every 429 whether the client could have avoided it. It knows all that a client can have read, but
// takes for granted that the client may remember it for ever and reads every answer. In a storm answers are lost, requests are
// given up on their way and hashes flip, so that not every such word is fair: there, avoidable 429s are counted and shown. In
// the calm rounds nothing stands between the client and the truth, and no avoidable 429 of any class is forgiven.
//
// # Two ways to run
//
// In virtual time the whole runs in a testing/synctest bubble without a network: a day takes minutes, everything is seen at
// rest, and all that is reachable from the transport is searched for tokens between the rounds. In real time it runs over
// sockets of the loopback interface.
package soak

// Package buckets decides when requests to Discord's REST API may leave. Its [RESTBucketManager] maps compiled routes to the
// buckets that Discord's responses name, and keeps one queue for each bucket, first come, first served.
//
// # The one idea
//
// A client never sees when the server processed a request, only that it happened between sending and receiving. So a lease is
// charged until it is certain that the server has forgotten its request. As long as fewer are charged than the limit allows,
// requests leave, however many are in flight; nothing is locked for a round trip. The arithmetic is [ratelimits.Window].
//
// # How a request goes
//
//	Acquire ── bucket ── edge ── global limit ── Lease ── send ── Update
//	             │ no permit, a hold, others ahead: in the queue
//
// A route that no response has named a bucket hash for lives in its UNKNOWN bucket. That one has no limit, but a discovery rule
// ([UnknownMode]): the first request goes alone, and the others move to the real buckets of their own major parameters
// when its response names the hash. A response without limits makes the route unlimited until one carries them.
//
// The global limit is counted for each authentication, and its slots are taken at the moment of sending. The edge is the
// network in front of Discord, which counts by IP address: when it refuses, everything from this manager waits.
//
// Responses of 401, 403 and 429 are counted for the whole process, as Discord bans an address for too many of them: requests
// are refused before that ([WithInvalidBudget]).
//
// What a 429 holds back depends on its class, see [ratelimits.Class]; a request that is acquired again after one, with the
// same [Request], stands where it stood before.
//
// # Life
//
// A manager does nothing before Start. Close ends all waits with [ErrClosed]; nothing keeps running after it. In between, a
// garbage collector forgets the buckets that are idle, and whose reset has passed: nothing that could cause a 429.
//
// There is no goroutine per bucket and none per request, and no lock is held while anything is waited for.
package buckets

// Package buckets decides when requests to Discord's REST API may leave. Its [RESTBucketManager] maps compiled routes to the
// buckets that Discord's responses name, and keeps one queue for each bucket, first come, first served.
//
// # Use
//
// The manager says when a request may leave; sending it is up to you.
//
//	lease, err := manager.Acquire(ctx, route, authorization) // waits
//	if err != nil {
//		return err // *ratelimits.TooLongError if the wait would be too long, and the others in package ratelimits
//	}
//	defer lease.Release() // no effect after Update; without Update it says that the outcome is not known
//	response, err := client.Do(request)
//	…
//	lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, body)) // others may leave now
//
// Of bodies only a 429's is needed; call [Lease.Refused] with its headers before its body is read, so that nothing runs into the
// same limit meanwhile. After a 429 acquire again: the wait is part of it. A lease that is never ended keeps its permit for ever.
// [RESTBucketManager.TryAcquire] never waits, [RESTBucketManager.AcquireFunc] calls back, and [RESTBucketManager.Prepare] saves the
// look-ups of requests that go to one route again and again. The whole loop is in the examples.
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
// A route that no response has named a bucket hash for is in its UNKNOWN bucket. That one has no limit, but a discovery rule
// ([UnknownMode]): the first request goes alone, and the others move to the real buckets of their own major parameters
// when its response names the hash. A success without limits makes the route unlimited until one carries them; an error without
// them proves nothing. Of what responses say of a hash the newest sent request counts, and each major parameter has its own.
//
// The global limit is counted for each authentication, and its slots are taken at the moment of sending. The edge is the
// network in front of Discord, which counts by IP address: when it refuses, everything that goes to this server waits. Servers other
// than Discord ([Request.Server]) share nothing with it.
//
// Responses of 401, 403 and 429 are counted for the whole process, as Discord bans an address for too many of them: requests
// are refused before that ([WithInvalidBudget]).
//
// What a 429 holds back depends on its class, see [ratelimits.Class]; a request that is acquired again after one, with the
// same [Request], stands where it stood before. [RESTBucketManager.LiftHolds] ends holds by hand.
//
// # Where to find what
//
//	who leaves next, and who is woken?                dispatch.go; before a gate (edge, global limit): gate.go
//	where does somebody wait, in which order?         queue.go
//	how long will a request wait, is that too long?   predict.go
//	what does a 429 hold back, and for how long?      hold.go
//	may UNKNOWN leave?                                discovery.go; one process at a time: shared_discovery.go
//	to which bucket does a route belong?              discovery.go; what is remembered of it: limit_group.go
//	who goes along when a route moves?                move.go
//	where is a request charged whose bucket is not known? provisional.go
//	who is forgotten, and when?                       evict.go
//	what happens when a request comes, and ends?      acquire.go, prepared.go, lease.go
//	what do processes share?                          shared.go; of a bucket shared_bucket.go, of the global limit shared_global.go,
//	                                                  of discovery shared_discovery.go
//	why does a bucket wait?                           snapshot.go
//
// # Life
//
// A manager does nothing before Start. Close ends all waits with [ErrClosed]; nothing keeps running after it. Shutdown lets those finish
// before who wait or are in flight. In between, a garbage collector forgets the buckets that are idle, and whose reset has passed: nothing that could cause a 429.
//
// There is no goroutine per bucket and none per request, and no lock is held while anything is waited for. A request that has to wait
// needs a goroutine only if it is acquired by a call that blocks; [RESTBucketManager.AcquireFunc] needs none.
//
// # Scale
//
// A request whose bucket is known and has room takes the bucket's lock twice, and looks up its route and its bucket in maps that
// are read without locks. It counts in a cache line that it has in common with some of the buckets only. So what requests of
// different buckets have in common is only read, except with a global limit: its slots are behind one lock for each
// credential, which bounds a credential at some millions of requests a second, while Discord allows it fifty. Requests of
// one bucket wait for its lock, and more cores do not help them.
//
// A bucket takes less than 500 bytes, everything included, until it is forgotten. The garbage collector looks at every bucket once in a
// poll period, one after the other, holding one bucket's lock at a time; that takes it a second for some millions of them. The table of
// buckets is in 256 shards, as one that grows stops those who make buckets in it meanwhile.
//
// So 64 cores are bounded by memory: each request touches about ten cache lines, none of which another core writes, unless it
// asks for the same bucket. And 100 million buckets take 50 GB; the collector is busy for most of a minute with
// them, so the poll period should be minutes then ([WithPollPeriod]); a shard that grows has 400,000 of them, and stops those who
// make buckets in it for tens of milliseconds. Beyond that, several managers should share the credentials among them.
package buckets

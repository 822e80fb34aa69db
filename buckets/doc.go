// Package buckets decides when requests to Discord's REST API may be sent. Its [RESTBucketManager] maps compiled routes
// to the buckets that Discord's responses name, and lets the requests to each bucket wait in the order in which they came.
//
// # Use
//
// The manager decides when a request may be sent; sending it is up to you.
//
//	manager := buckets.NewRESTBucketManager()
//	if err := manager.Start(); err != nil { ... }
//	defer manager.Close()
//	route, err := routes.CreateMessage.Compile(channelID) // or routes.Match(method, url)
//
// Then for each request:
//
//	lease, err := manager.Acquire(ctx, route, authorization) // waits
//	if err != nil {
//		return err // *ratelimits.TooLongError if the wait would be too long, or another error of package ratelimits
//	}
//	defer lease.Release() // no effect after Update; without Update: the outcome is unknown
//	response, err := client.Do(request)
//	…
//	lease.Update(ratelimits.ParseResponse(response.StatusCode, response.Header, body)) // lets others be sent
//
// Only a 429's body is needed. Call [Lease.Refused] with the headers of a 429 before you read its body, so that
// meanwhile no other request is sent into the same limit. After a 429, call Acquire again, which includes the wait. A
// lease that is never ended keeps its permit for ever. [RESTBucketManager.TryAcquire] never waits,
// [RESTBucketManager.AcquireFunc] calls back, and [RESTBucketManager.Prepare] saves look-ups for repeated requests to
// one route. The examples show the complete loop.
//
// # Principle
//
// A client never sees when the server processed a request, only that it happened between sending and receiving. So a
// request is charged until it is certain that the server no longer counts it. While fewer are charged than the limit
// allows, requests are sent, however many are in flight; nothing is locked for a round trip. [ratelimits.Window] has
// the arithmetic.
//
// Limits that responses do not tell can be declared: [WithLimit], for routes, and for each credential, major parameter, group or key of your own,
// and [WithKnownLimits], for those that Discord is known to have. They are windows like those of buckets, of which responses say nothing. A
// request is sent when all limits that apply to it have room.
//
// # Life of a request
//
//	Acquire ── bucket ── declared limits ── edge ── global limit ── Lease ── send ── Update
//	             │ no permit, a hold, others ahead: in the queue
//
// Requests that wait for the same stand in one queue of their bucket, in the order in which they came. Requests that name a group ([Request.Group],
// [ContextWithGroup]), a guild say, have a queue for each group, and groups take turns, by weight if you like ([WithGroupWeights]). Where several
// buckets wait for one limit that is above them, the global one or one that is declared, their queues stand in line there, and groups take turns there, too.
//
// How long all that takes is known beforehand: [RESTBucketManager.Predict] says it of a request without queueing it,
// [RESTBucketManager.WaitingRequests] of those that wait, and Acquire rejects at once what would take too long.
//
// A route whose bucket hash is not known has an UNKNOWN bucket. It has no limit, but a discovery rule ([UnknownMode]):
// the first request is sent alone, and the others move to the real buckets of their own major parameters when its
// response names the hash. A success without limits makes the route unlimited until a response carries limits; an error
// without limits proves nothing. If responses differ in the hash, that of the request sent last counts; hashes are kept
// per major parameter where they differ.
//
// The global limit is counted for each authentication; a request takes a slot when it is sent. The edge is the network
// in front of Discord, which counts by IP address: when it refuses, all requests to that server wait. Other servers
// ([Request.Server]) share no limits with Discord.
//
// Responses of 401, 403 and 429 are counted for each manager and server, because Discord bans an IP address for too
// many of them: requests are rejected before that ([WithInvalidBudget]).
//
// Which requests a 429 holds depends on its class, see [ratelimits.Class]. A request that is acquired again after a 429
// with the same [Request] keeps its place in the queue. [RESTBucketManager.LiftHolds] ends holds.
//
// # Which file answers which question
//
//	where is a wait predicted?                        predict.go, as of a bucket's window in ratelimits/predict.go; how many leave
//	                                                  before: ahead.go
//	what does a 429 hold, and for how long?           hold.go; the bucket itself by its window: ratelimits/hold.go
//	which buckets are evicted, and when?              evict.go
//	which request leaves next, and who wakes it?      dispatch.go; for what is above several buckets: line.go
//	may a request to an unknown route leave?          Next of ratelimits/window.go, while no limit is known; of several
//	                                                  processes: shared_discovery.go
//	who is first?                                     queue.go; among groups: internal/fifo/turns.go
//
//	how does a request begin and end?                 acquire.go, as a waiter (waiter.go), with a callback (acquire_func.go), prepared
//	                                                  (prepared.go); lease.go
//	what has to let a request leave?                  bucket.go; where permits of windows come from: source.go; above buckets: gate.go
//	                                                  (edge, global limit), declared_limit.go
//	which declared limits apply to a request?         declare.go, for the routes that declare_match.go finds; ready to use:
//	                                                  known_limits.go
//	which wait is too long, and who is told?          too_long.go; while other processes have to be asked: can_tell.go
//	what is each waiting request told?                waiting_requests.go
//	to which bucket does a route belong?              discovery.go; what is kept about it: limit_group.go
//	which requests move with a route?                 move.go
//	where is a request of an unknown bucket charged?  provisional.go
//	what do processes share?                          shared.go; buckets: shared_bucket.go, declared limits:
//	                                                  shared_declared.go, the global limit: shared_global.go, discovery: shared_discovery.go,
//	                                                  what is counted: shared_stats.go
//	why does a bucket wait?                           snapshot.go; for which declared limits do requests wait: declared_snapshot.go
//	which buckets wait, and what else does?           status.go, by the list in busy.go
//	how does a manager start, drain and end?          lifecycle.go
//	what does it leave to the next one?               state.go; what does that make of it: restore.go; both for declared limits:
//	                                                  declared_state.go
//	what do hooks and logs get?                       hooks.go
//
// # Locks
//
// In the order in which they are taken: life (start, close), leaving (the state that is left), moves (which credentials, servers, routes
// and limit groups there are; only who has it locks two buckets), the one of a route that moves, the one for serving a line, the
// bucket's, that of the list of busy buckets, that of a line (of a gate, or a declared limit), those of other lists and of counters. None is held
// while a function of the caller's runs, but for the methods of [Shared]; Close waits for some hooks under the first.
//
// # Life of a manager
//
// A manager does nothing before Start. Close ends all waits with [ErrClosed]; nothing keeps running after it. Shutdown
// first lets waiting requests and those in flight finish. While it runs, a garbage collector evicts buckets that are idle
// and whose reset has passed, and the hidden limit that a 429 may have shown, so that an eviction cannot cause a 429.
//
// A manager forgets everything when it is closed, but for what [RESTBucketManager.WriteState] has written: the next one, in the same
// process or another, goes on from there ([RESTBucketManager.RestoreState]). Package httpclient/statefile keeps that in a file.
//
// There is no goroutine per bucket or request, and no lock is held while a request waits. A waiting request needs a
// goroutine only if it was acquired by a call that blocks; [RESTBucketManager.AcquireFunc] needs none.
//
// # Scale
//
// A request whose bucket is known and has room takes the bucket's lock twice, and looks up its route and its bucket in
// maps that are read without locks. Its counters are in a cache line that only some of the buckets share. So requests
// of different buckets write no common memory, except for the slots of a global limit: one lock for each credential
// bounds it to some millions of requests a second, while Discord allows fifty. Requests of one bucket contend for its
// lock, so more cores do not make them faster.
//
// A bucket takes less than 500 bytes in all until it is evicted. The garbage collector checks every bucket once in a
// poll period, holding one bucket's lock at a time; it checks some millions in a second. The table of buckets has 256
// shards, because no bucket can be added to a shard while it grows.
//
// So 64 cores are bounded by memory: each request accesses about ten cache lines, which other cores write only for
// requests of the same bucket. 100 million buckets take 50 GB, and a run of the garbage collector most of a minute, so
// set a poll period of minutes ([WithPollPeriod]); a shard then has 400,000 buckets, and adding to it stops for tens of
// milliseconds when it grows. For more buckets, divide the credentials among several managers.
package buckets

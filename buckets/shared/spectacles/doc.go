// Package spectacles lets Ratelight share limits with Spectacles clients, so that a bot can migrate one process at a
// time.
//
// A [Store] keeps the counters of the Spectacles ratelimiting specification, with the same names and meaning. Processes
// with the Store and clients that follow the specification count together. When the last other client is replaced, use
// the store of package shared instead, which offers more with fewer calls.
//
//	store := spectacles.New(runner)
//	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
//
// # Correct the other clients first
//
// The script of the specification has a flaw that other clients cannot compensate: if the limit is used up, the script
// grants every request in the last millisecond of the window. Change one comparison in it, from
//
//	if ttl < 0 then return tonumber(ARGV[1])
//
// to
//
//	if ttl <= 0 then return tonumber(ARGV[1])
//
// In our simulations of fixed windows, two Ratelight processes and two other clients caused no 429 with this change.
// Without the change they caused more than one 429 per successful request.
//
// # Names of routes
//
// The keys of a route begin with the prefix (WithPrefix, none by default) and the name of the route. The specification
// does not define these names. List the keys on the server that end in ":remaining". Then choose with WithRoute a
// function that makes the same names: [ByPath], the default, [ByMethodAndPath], or your own. If the names differ,
// nothing is shared, and only 429s show that.
//
// # Keys
//
//	[route]:remaining  string       as specified: remaining requests; expires with the window, never while its end is
//	                                unknown
//	[route]:limit      string       as specified, but it expires a day after its last use; a missing one means 1
//	global             string       as specified
//	[route]:x          hash         Ratelight only: number, end and stamp of the window, and more; expires after a day
//	[route]:f          sorted set   Ratelight only: requests in flight, by the end of their lease; expires after a day
//
// On a cluster the prefix must contain a hash tag, such as "{my-bot}:", and the other clients must use the same prefix,
// because the keys of a call must be in one slot. No key contains a token. Spectacles has one set of counters, so use
// one prefix per application: several credentials with one prefix count together, which is safe but slow.
//
// # What happens when something fails
//
//	event                              what happens                                       cost
//	a client dies with permits         they are charged to each window until the lease    up to a lease (30 s)
//	                                   ends; a counter without an expiry is deleted then
//	a response has no headers          the route sends one request at a time, or waits    a window at most
//	                                   as long as windows last
//	a waiter leaves, a process closes  the permit is returned; a window with no other     nothing
//	                                   request is undone
//	a call or its reply is lost        the call is repeated; late calls do nothing        nothing
//	the server is unavailable          nothing is sent; retried after 100 ms to 1 s       the outage and 1 s
//	the server loses all data          limits are learnt again, one request first         a 429 per request in flight
//	a counter is evicted in a window   it counts as used up until the window ends         the rest of the window
//	the server's clock goes back       expected times are moved back by as much           time since the last call
//	a key holds a foreign value        *shared.KeyError for all waiting requests,         until it is deleted
//	                                   checked again after a second
//
// # What is weaker than in package shared
//
//   - Order: requests are first come, first served within a process only. Predictions of the wait do not include other
//     processes.
//   - Cost: a request costs a few calls instead of one or less, because there are no notifications and no loans. Other
//     clients make about one call per window for each waiting request.
//   - Routes instead of bucket hashes: two routes with one limit at Discord exceed it together, as with Spectacles.
//   - ByPath: methods that have separate limits at Discord count in one window, with the limit of the latest response.
//     That causes 429s, as it does with Spectacles.
//   - The first request of a manager on a route is sent before its counter is known. If other processes have used up
//     the limit by then, the request gets a 429.
//   - The global limit: each process uses all of it, or its part if WithProcesses says how many processes divide it. A
//     global 429 stops all processes until its wait is over.
//   - Sliding and leaky buckets: Ratelight processes wait for each free place. Other clients believe that the whole
//     bucket is free when one place is free, so expect 429s there.
//   - After a 429 all processes continue at once when its wait is over. Invalid requests are not counted together.
//   - Requests of other clients that are in flight when a window ends are charged to no window. With many slow
//     responses that causes an occasional 429.
//
// If you use a manager without a transport, set the Stamp of each response, with ratelimits.ParseStamp, because this
// package distinguishes windows by the stamp.
package spectacles

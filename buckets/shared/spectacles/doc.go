// Package spectacles shares limits with clients of Spectacles, so that a fleet can move over one process at a time.
//
// A [Store] keeps the counters that the Spectacles ratelimiting specification describes, under the same names and with the
// same meaning: whoever follows that document and whoever uses the Store count together. When the last other client is gone, use the store
// of package shared instead, which does more and costs less.
//
//	store := spectacles.New(runner)
//	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
//
// # Correct the other clients first
//
// The script of the specification has a flaw that no other client can make up for: in the last millisecond of a window that is used
// up it lets everybody through. Change one comparison in it, from
//
//	if ttl < 0 then return tonumber(ARGV[1])
//
// to
//
//	if ttl <= 0 then return tonumber(ARGV[1])
//
// With that, two processes of ours and two others drew no 429 in our simulations of fixed windows; without it more than one
// for each request that succeeded.
//
// # What a route is called
//
// The keys of a route begin with the prefix (WithPrefix, none unless set) and the name of the route. The specification does not say
// how that is made, so look at the keys of the engine that end in ":remaining", and choose with WithRoute what makes the same
// names: [ByPath], which is used unless something else is set, [ByMethodAndPath], or a function of your own. If names differ, nothing is
// shared, and nobody notices but by 429s.
//
// # Keys
//
//	[route]:remaining  string       as specified: what is left; expires when the window ends, not at all while that is unknown
//	[route]:limit      string       as specified, but it expires a day after its last use; a missing one means 1
//	global             string       as specified
//	[route]:x          hash         ours: number, end and name of the window, and the like; a day
//	[route]:f          sorted set   ours: requests in flight, with the ends of their leases; a day
//
// On a cluster the prefix has to contain a hash tag, like "{my-bot}:", and the other clients have to use it too, as the
// keys of a call are in one slot. No key contains a token. As Spectacles has one set of counters, a prefix is for one
// application: several credentials on the same prefix count together, which is safe and slow.
//
// # What happens when something goes wrong
//
//	event                              what happens                                                              cost
//	a client dies with permits         they are charged to each window until the lease ends; a counter that it   up to a lease (30 s)
//	                                   left without an end is given up then
//	a response has no headers          the route goes on one at a time, or waits for as long as windows last     a window at most
//	a waiter leaves, a process closes  the permit goes back, and a window that nobody used is not one            nothing
//	a call or its reply is lost        it is said again; calls that come late do nothing                         nothing
//	the engine is away                 nothing is sent; tried again after 100 ms, growing to 1 s                  the outage and 1 s
//	the engine forgets everything      learnt again, one request first                                           a 429 for each request in flight
//	a counter is evicted in a window   it counts as used up until the window ends                                 the rest of the window
//	its clock goes back                what was to come earlier comes as much earlier                            what passed since the last call
//	a key holds something else         *shared.KeyError for all who wait, looked at again after a second         until it is deleted
//
// # What is weaker than in package shared
//
//   - Order: first come, first served holds within a process. Among processes whoever asks first wins, and predictions of the
//     wait do not count the others.
//   - Cost: a few calls for each request instead of one or less, as there is nobody to be woken by and nothing is lent. Other clients ask about
//     once a window for each of their waiters.
//   - Routes instead of bucket hashes: two routes that have one limit at Discord overrun it together, as those of Spectacles do.
//   - By path: if routes are called ByPath, methods that have limits of their own at Discord count in one window, and the limit of the
//     latest response counts for all. That draws 429s, as it does among clients of Spectacles.
//   - The first request of a manager on a route is sent before its counter is known. Where others have used up the limit at that
//     moment it draws a 429.
//   - The global limit: each process paces itself by all of it, or by its part of it if WithProcesses says among how many it is divided. A 429
//     that is global stops everybody until it is over.
//   - Buckets that refill place by place are waited for as that takes among processes of ours. Other clients take the first
//     place that comes back for the whole bucket; expect 429s there.
//   - After a 429 everybody goes on at once when its wait is over. Invalid requests are not counted together.
//   - Requests of other clients that cross the end of a window are charged to neither; with many slow responses that draws a 429
//     now and then.
package spectacles

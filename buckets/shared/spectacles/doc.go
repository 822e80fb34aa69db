// Package spectacles lets Ratelight share limits with Spectacles clients, so that a bot can migrate one process at a
// time.
//
// A [Store] uses the counters of the Spectacles ratelimiting specification, with the same names and the same meaning.
// So processes with the Store and clients that follow the specification count together. When the last other client has
// been replaced, use the store of package shared instead, which offers more and makes fewer calls.
//
//	store := spectacles.New(runner)
//	manager := buckets.NewRESTBucketManager(buckets.WithShared(store))
//
// # Correct the other clients first
//
// The script of the specification has a flaw that other clients cannot compensate: in the last millisecond of a window
// that is used up, the script grants every request. Change one comparison in the script, from
//
//	if ttl < 0 then return tonumber(ARGV[1])
//
// to
//
//	if ttl <= 0 then return tonumber(ARGV[1])
//
// In our simulations of fixed windows, two Ratelight processes and two other clients caused no 429s with this change.
// Without the change they caused more than one 429 for each successful request.
//
// # Names of routes
//
// The keys of a route begin with the prefix (WithPrefix, none by default) and the name of the route. The specification
// does not define these names. List the keys on the server that end in ":remaining". Then use WithRoute to choose a
// function that makes the same names: [ByPath], the default, [ByMethodAndPath], or a function of your own. If the names
// differ, nothing is shared, and only 429s show the mistake.
//
// # Keys
//
//	[route]:remaining  string      as specified: the number of remaining requests
//	[route]:limit      string      as specified; if it is missing, the limit counts as 1
//	global             string      as specified: exists while a global 429 stops all requests
//	[route]:x          hash        only for Ratelight: number, end and stamp of the window, and more
//	[route]:f          sorted set  only for Ratelight: the requests in flight, by the end of their lease
//
// The key [route]:remaining expires with the window. While the end of the window is not known, the key does not expire.
// The keys [route]:limit, [route]:x and [route]:f expire a day after their last use.
//
// On a cluster all keys of a call must be in one slot. Therefore the prefix must contain a hash tag, such as
// "{my-bot}:", and the other clients must use the same prefix. No key contains a token. Spectacles has only one set of
// counters for each prefix, so use one prefix for each application. If several credentials use the same prefix, their
// requests count together. This causes no 429s, but the requests of each credential are slower.
//
// # What happens when something fails
//
//	a client dies with permits        the permits are charged to each window until their lease (30 s) has ended. Then a
//	                                  counter without an expiry is deleted
//	a response has no headers         the route sends one request at a time, or waits as long as its windows usually
//	                                  last. This costs a window at most
//	a waiting request is cancelled,   the permit is returned. If no request was sent in a window, the window is deleted
//	or a process closes
//	a call or its reply is lost       the call is repeated. A call that arrives too late has no effect
//	the server is unavailable         nothing is sent. Calls are repeated after 100 ms to 1 s
//	the server loses all data         limits are learnt again: first, one request is sent. Each request in flight may
//	                                  cause a 429
//	a counter is evicted              the window counts as used up until it ends
//	the server's clock goes back      expected times are moved back by the same amount. This costs the time since the
//	                                  last call
//	a key holds a foreign value       all requests that wait for the key fail with a *shared.KeyError. The key is checked
//	                                  again after a second
//
// # What is weaker than in package shared
//
//   - Order: requests are first come, first served only within each process. Predictions of the wait do not include
//     other processes.
//   - Cost: a request costs a few calls, not one or less, because there are no messages and no loans. The other clients
//     make about one call in each window for each waiting request.
//   - Routes instead of bucket hashes: if Discord has one limit for two routes, the two routes together exceed it, as
//     with Spectacles.
//   - ByPath: if methods have separate limits at Discord, their requests are nevertheless counted in one window, with
//     the limit of the latest response. This causes 429s, as with Spectacles.
//   - The first request of a manager on a route is sent before the route's counter is known. If other processes have
//     used up the limit at that time, the request gets a 429.
//   - The global limit: each process uses the whole limit, or a fixed part of it if WithProcesses sets the number of
//     processes. A global 429 stops all processes until its wait is over.
//   - Sliding and leaky buckets: Ratelight processes wait until the next request is allowed. As soon as one request is
//     allowed, other clients send as many as the limit, so expect 429s there.
//   - After the wait of a 429, all processes continue at the same time. Invalid responses are not counted together.
//   - If requests of other clients are in flight when a window ends, they are charged to no window. With many slow
//     responses this causes an occasional 429.
//
// If you use a manager without a transport, set the Stamp of each response with ratelimits.ParseStamp, because this
// package uses the stamp to distinguish windows.
package spectacles

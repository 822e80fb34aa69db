// Package shared lets several processes share Discord's limits through a server that stores values, so that together
// the processes behave like one client. Bot authors use buckets/shared/redis, which connects this package to Redis or
// Valkey. Any other server needs an [Engine], which only loads and replaces values, sends messages, and has a clock.
// The README tells operators how to set up the server, what to watch, and how to upgrade.
//
// A manager uses only [Source] and the interfaces that the methods of a Source return. None of their methods blocks,
// because the store calls the server in goroutines of its own, and tells the manager when something has changed.
//
// # How it works
//
// The server only stores and compares values; all rules are in this package. Each value begins with its version. To
// store something new, a process computes a new value from the value that it knows. The server accepts the new value
// only if its own value still has the version that the process knows. Otherwise another process was faster, and the
// reply contains the newer value. The process then pauses for a random time (contest), and computes a new value from
// the newer one. The server also sends an accepted value to the processes that will need it. A process that has nothing
// to store only loads the value.
//
// The state of a bucket is one value: an encoded ratelimits.Window, the waiting requests, the requests in flight, and
// the processes that use the bucket. Each process makes one call per bucket at a time; what happens during a call is
// reported by the next one. When permits become free, only the process whose request is first in the queue calls the
// server. This call grants permits to the requests of all processes. If the other processes need not know the outcome
// of a request at once, the outcome is reported with the next call, after 200 ms at most. All times in a value are by
// the server's clock. Each process knows bounds of the difference between that clock and its own.
//
// Each call also renews a value that the server stores for three seconds. While the server has this value, the process
// counts as alive. To learn whether another process is alive, a process loads the value of that process.
//
// If only one process uses a bucket, the server lends the bucket to that process. The process then has a loan: it
// decides by its own window, without calls. A loan lasts as long as the server hears from the process. One call a
// second (a beat) is enough for all loans of a process; the reply also says which of these loans other processes need.
// After nine minutes the process returns the loan, because the server would soon forget the bucket. The process gets a
// new loan with its next request. The process also returns the loan if another process needs the bucket, or has an
// outcome or a hold of the bucket to report. The returned state contains the window and the requests in flight. The
// server lends a bucket to a process that can send now, if no other process has used the bucket for a second. A bucket
// whose period is longer than 10 s is never lent: if the process with the loan died, the next process would have to
// wait for a whole period.
//
// A declared limit (buckets.WithLimit) is shared like a bucket, under a key that contains the name, the limit and the
// period. Responses say nothing about a declared limit. Its limit and period are known from the start, so no request
// has to be sent first to learn them, and missing headers mean nothing. A loan of a declared limit lasts a minute at
// most. A request may need permits of several declared limits. While it waits for the missing permits, it keeps the
// permits that it has, for two seconds at most. As for every bucket, a process with waiting requests asks again every
// 1.5 s.
//
// The global limit of a credential is divided between the processes (division): each process has a part, and sends no
// more than its part. All parts are in one value. A process loads this value once a second, and replaces the value when
// it needs more than its part or much less. The process that replaces the value gives each process what that process
// needs, as far as the limit suffices, and some of the unused rest. The remaining rest is free for processes that start
// or need more. When a part shrinks, the difference becomes available 1.25 s later, because until then requests that
// were sent with the larger part may still count. If the whole limit is in use, a process that starts waits for these
// 1.25 s, and has an equal part after 1.5 s. As soon as the process has got its first reply, its predictions include
// this wait.
//
// A process without a global limit only registers for holds: every thirty seconds, or every second if it receives no
// messages.
//
// One process at a time discovers the bucket hash of a route (found), and passes the hash to all other processes. Until
// the hash is known, the requests for the route wait in each process separately. The discovering process may use up the
// first window of the bucket, because no other process has asked for the bucket yet. From the second window on, the
// requests of all processes are in one queue.
//
// Invalid responses are counted for each application, or for each address if WithAddress names one (counts). While the
// count is 0, a process loads it once a minute.
//
// # What happens when something fails
//
// Calls can be lost, repeated or late. A state contains the number of the latest call of each process. So if the reply
// to a call is lost, its process can see whether the call took effect. A call has no effect if it reaches the server
// after its process has stopped waiting for the reply.
//
// A process detects in two ways that the server has lost state. Version numbers only grow, so an older version means a
// loss. One value on the server shows that a process is alive. The process knows how long the server should store this
// value, and notices if the value was lost earlier. In addition, a process that knows the server's clock detects when
// the clock was set. The first process that detects a loss or a set clock ends the era, which is a number on the
// server. From then on calls of the earlier era have no effect, and each process learns of the new era with its next
// call. A state of an earlier era, whether on the server or in a process, only says how long to wait: nothing is sent
// until its window has ended, and nothing is sent in the first 1.2 s, in which all processes report their requests in
// flight. Then one request is sent before all others. If the server has lost the state of only one bucket, the
// processes that remember the state do the same for this bucket. A process remembers a state for nine minutes or until
// the window of the state has ended, whichever is later.
//
// For a declared limit, processes do not wait until the window has ended, because its period may be a day. Each request
// that some process remembers stays charged until its period ends by the clock of that process. The permits that these
// requests leave free may be used after 1.2 s. Requests that no living process remembers are no longer charged. So
// after a loss, at most one window's worth of requests is sent in excess of the limit.
//
//	a process closes                  nothing is lost: the process returns its loans, and reports its requests in flight
//	a process dies:
//	  its requests in flight          stay charged: for 3 s as in flight, and then for a whole period
//	  its waiters                     leave the queue after 3 s
//	  its discovery of a limit or     passes to the next process after 3 s
//	  a hash
//	  its loans                       after 3 s the next process takes the bucket over, and waits for a whole period, 10
//	                                  s at most, because no process knows which requests were sent last
//	  its part of the global limit    is free for other processes 4.25 s after its last call
//	a process is suspended for long,  the process compares its wall clock with the monotonic one, and gives up its
//	or its wall clock is set          permits, its loans and its part of the global limit
//	a request has no outcome          the request counts as unanswered after its lease (WithLease)
//	a call or its reply is lost       the call is repeated after WithCallTimeout at the latest
//	the server is unavailable         see Outage
//	the server has lost all its       the first process that calls and has seen a later state ends the era, as described
//	state, or has an older one        above. Loans are returned, and their buckets also pause. Processes that have not
//	                                  called since the loss cannot notice it. This lasts for a second at most if any
//	                                  process sends. In that second, such processes send one window's worth of requests
//	                                  if the state is older, and one request if it is gone. Processes keep their parts of
//	                                  the global limit, and report them within a second; the rest is divided 4.25 s
//	                                  later. A process that starts in that first second may get too much until the other
//	                                  processes have reported their parts
//	the server evicts a single key    the same, for that key only. A process with a loan does not notice that the state
//	                                  of its bucket is gone. If another process needs the bucket, both processes send,
//	                                  until a response shows one of them the requests of the other. For a declared limit
//	                                  this lasts until the loan is returned, a minute at most
//	the server's clock is set         by more than 250 ms: the same as a loss, also for the global limit. By less:
//	                                  windows in use end that much earlier or later. If a virtual machine and its wall
//	                                  clock stood still, its process takes this for a step of the server's clock, and all
//	                                  processes pause
//	a key holds a foreign value       all requests that wait for that bucket fail with a KeyError
//
// The server counts as unavailable when two calls in a row have failed, or when no call has succeeded for a second.
// From then on a process pauses for a second at most between two calls to the server. Each manager logs once that the
// server is unavailable, and once that it is available again (WithLogger). The outage also appears in Store.Outage, in
// the manager's Stats, and in the LimitSnapshot of each limit whose requests wait for the server.
//
// Under OutageWait a request waits up to its max wait or its context's deadline, and then fails with a
// *ratelimits.TooLongError that is also an *OutageError. A request with a max wait of 0 fails at once if the outage is
// already known, and after WithCallTimeout otherwise.
//
// If a key has a foreign value, requests that need the key cause another attempt to load it, once a second at most. If
// the client of a store is closed before the managers that use the store, all requests that need the server fail with
// ErrClosed.
//
// # What the server keeps
//
// All values are strings. All keys begin with the version of the protocol, "rl2:", so that processes of different
// versions never read each other's keys. All keys except that of WithAddress begin with "rl2:{application}:", so they
// are in one slot of a cluster. Each key expires by itself. No key contains a token.
//
//	b:<bucket>              the state of a bucket: its version, the session that has the loan ("-" if there is none), and
//	                        numbers of variable length. Stored for ten minutes after the last use and the end of the
//	                        window, or after a period while requests are in flight; of a declared limit up to a day and
//	                        ten minutes
//	e                       the number of the era; two days
//	p:<session>             says that the session is alive; three seconds
//	w:<session>             the loans of the session that other sessions need, for a session that receives no messages;
//	                        1.5 seconds
//	g:<credential>          parts of the global limit, amounts that are not free yet, the hold, in JSON; ten minutes
//	d:<credential>:<route>  the bucket hash of the route, for a day after a process last asked for it; or the session
//	                        that discovers the hash, and the sessions that wait for it; in JSON
//	v                       says that the keys belong to Ratelight; Open of buckets/shared/redis sets it for 30 days
//	o:<session>             channel: news for one session
//	i                       invalid responses of each session in the latest ten minutes, in JSON; with WithAddress the
//	                        key is rl2:ip:{<address>}
//
// A session is one manager of a process. Messages only reduce delays: without them a process notices changes within a
// second or two.
package shared

// Package shared lets several processes share Discord's limits through a server that stores values, so that together
// the processes behave like one client. Bot authors use buckets/shared/redis, which connects the package to Redis or
// Valkey. Any other server needs an [Engine], which only loads and replaces values, sends messages, and has a clock.
// The README tells operators how to set up the server, what to watch, and how to upgrade.
//
// A manager uses only [Source] and the interfaces that a Source returns. Their methods do not block: the store calls
// the server in goroutines of its own, and tells the manager when something has changed.
//
// # How it works
//
// The server only stores and compares values; all rules are in this package. Each value begins with its version. A
// process that has news to store computes the next value from the value that it knows, and replaces that value if the
// server still has the same version. If another process was faster, the reply contains the newer value; the process
// computes the next value from that one, after a random pause (contest). The new value is also sent to processes that
// will need it. A process without news only loads the value.
//
// The state of a bucket is one value: an encoded ratelimits.Window, the waiting requests, the requests in flight, and
// the processes that use the bucket. Each process has at most one call per bucket in progress; the next call carries
// the news that arose meanwhile. When permits become free, only the process with the first place in the queue calls the
// server; its call grants permits to the requests of all processes. An outcome that the other processes need not know
// at once waits for the next call, at most 200 ms. All times in a value are by the server's clock; each process knows
// bounds of the difference from its own clock.
//
// Each call also renews a value that the server stores for three seconds. While the server has this value, the process
// counts as alive. To learn whether another process is alive, a process loads the value of that process.
//
// If only one process uses a bucket, the server lends the bucket to it: the process has a loan. It then decides by its
// own window, without calls. A loan lasts as long as the server hears from the process. For all its loans together, one
// call a second is enough (beat); the reply to a beat also says which loans other processes need. After nine minutes
// the process returns the loan, before the server forgets the bucket; its next request gets a new loan. The process
// also returns the loan if another process needs the bucket or has an outcome or a hold of the bucket to report. The
// returned state contains the window and the requests in flight. A bucket is lent to a process that can send now, if no
// other process has used the bucket for a second. A bucket whose period is longer than 10 s is never lent, because if
// the process with the loan died, the next process would wait for a whole period.
//
// A limit that the caller declares (buckets.WithLimit) is shared like a bucket, under a key that contains its name,
// limit and period. Responses say nothing about a declared limit. Its limit and period are known from the start, so no
// request has to go first, and missing headers mean nothing. Each of its loans lasts a minute at most. A request may
// need permits of several declared limits; it keeps those that it already has for two seconds at most while it asks for
// the others. As for every bucket, a process with waiting requests asks again every 1.5 s.
//
// The global limit of a credential is divided (division): each process has a part of it and sends no more than its
// part. All parts are in one value. A process replaces the value when it needs more than its part or much less, and
// loads it once a second. The process that replaces the value gives each process what that process needs, up to the
// whole limit, and some of the unused rest. What remains is free for processes that start or need more. When a part
// shrinks, the difference becomes available 1.25 s later, when no request sent with it can count any more. If the whole
// limit is in use, a process that starts waits that long, and has an equal part after 1.5 s. From the first reply on,
// predictions include this wait.
//
// A process without a global limit only registers for holds: every thirty seconds, or every second if it receives no
// messages.
//
// One process at a time discovers the bucket hash of a route (found), and passes the hash to all other processes. Until
// then requests wait in each process separately. No other process has asked for the bucket yet, so the discovering
// process may use up the bucket's first window. From the second window on, the requests of all processes are in one
// queue.
//
// Invalid responses are counted by application, or by address if WithAddress names one (counts). While there are none,
// a process loads the count once a minute.
//
// # What happens when something fails
//
// Calls can be lost, repeated or late. A state contains the number of the latest call of each process, so a process
// whose reply was lost sees whether the call took effect. A call has no effect once its process has stopped waiting for
// it.
//
// Version numbers only grow, and a process knows until when the server should store the value that shows it is alive.
// If the server has an older version, or has lost that value early, it has lost state. A process that knows the
// server's clock also detects that the clock was set. The first process that detects a loss or a set clock ends the
// era, which is a number on the server. From then on calls of the earlier era have no effect, and each process learns
// of the new era with its next call. A state of an earlier era, whether on the server or in a process, only says how
// long to wait: nothing is sent before the end of its window, nor in the first 1.2 s, in which all processes report
// their requests in flight. Then one request goes first. If the server has lost the state of only one bucket, the
// processes that remember the state do the same for that bucket. A process remembers a state for nine minutes, or as
// long as its window lasts.
//
// A declared limit is not waited out, because its period may be a day. The requests that any process remembers stay
// charged until their period ends, by the clock of that process, and the other permits may be used after 1.2 s.
// Requests that no living process remembers are no longer charged, so a loss lets at most one window's worth be sent
// twice.
//
//	a process closes                  no loss: it returns its loans, and reports its requests in flight
//	a process dies:
//	  its requests in flight          stay charged: for 3 s as in flight, then as sent at any time until then
//	  its waiters                     leave the queue after 3 s
//	  its discovery of a limit or     passes to the next process after 3 s
//	  a hash
//	  its loans                       after 3 s the next process takes the bucket over, and waits for a whole period,
//	                                  10 s at most, because no process knows what was sent last
//	  its part of the global limit    is free for other processes 4.25 s after its last call
//	a process is suspended for long,  it compares its wall clock with the monotonic one, and gives up its permits, its
//	or its wall clock is set          loans and its part of the global limit
//	a request has no outcome          it counts as unanswered after its lease (WithLease)
//	a call or its reply is lost       the call is repeated after WithCallTimeout at the latest
//	the server is unavailable         see Outage
//	the server has lost all its       the first process that calls and has seen a later state ends the era, as above;
//	state, or has an older one        loans are returned, and their buckets pause, too. Before that, for a second at
//	                                  most if any process sends, processes that have not called since the loss cannot
//	                                  notice it: with an old state they send one window's worth, with no state one
//	                                  request. Processes keep their parts of the global limit and report them within a
//	                                  second; the rest is divided 4.25 s later. A process that starts in that first
//	                                  second may get too much until the others have reported
//	the server evicts a single key    the same, for that key only. A process with a loan does not notice that the state
//	                                  of its bucket is gone. Another process that needs the bucket then sends, too,
//	                                  until a response shows one of them the requests of the other. For a declared
//	                                  limit this lasts until the loan is returned, a minute at most
//	the server's clock is set         by more than 250 ms: the same as a loss, also for the global limit. By less:
//	                                  windows in use end that much earlier or later. If a virtual machine stood still
//	                                  together with its wall clock, its process takes that for a step of the server's
//	                                  clock, and all processes pause
//	a key holds a foreign value       KeyError, for all requests that wait for that bucket
//
// The server counts as unavailable when two calls in a row have failed, or when no call has succeeded for a second.
// From then on a process pauses for a second at most between two calls of the server. Each manager logs once that the
// server is unavailable and once that it is back (WithLogger). Store.Outage, the manager's Stats, and the LimitSnapshot
// of a limit whose requests wait for the server also report the outage.
//
// Under OutageWait a request waits up to its max wait or its context's deadline, and then fails with a
// *ratelimits.TooLongError that is also an *OutageError. A request with a max wait of 0 fails at once if the outage is
// already known, and after WithCallTimeout otherwise.
//
// When a request needs a key with a foreign value, the key is loaded again, once a second at most. If a store's client
// is closed before the managers that use it, all requests that need the server fail with ErrClosed.
//
// # What the server keeps
//
// All values are strings. All keys begin with the version of the protocol, "rl2:", so that processes of different
// versions never read each other's keys. All keys but that of WithAddress begin with "rl2:{application}:", so they are
// in one slot of a cluster. Each key expires by itself. No key contains a token.
//
//	b:<bucket>              the state of a bucket, for ten minutes after its last use and the end of its window, or
//	                        after a period while requests are in flight; of a declared limit up to a day and ten
//	                        minutes. After the version comes the session that has the loan, "-" if there is none. The
//	                        rest is numbers of variable length
//	e                       the number of the era; two days
//	p:<session>             says that the session is alive; three seconds
//	w:<session>             its loans that other sessions need, if it receives no messages; six seconds
//	g:<credential>          parts of the global limit, amounts that are not free yet, the hold, in JSON; ten minutes
//	d:<credential>:<route>  bucket hash of the route, for a day after the last question; or the session that discovers
//	                        the hash, and the sessions that wait for it; in JSON
//	v                       says that the keys belong to Ratelight; Open of buckets/shared/redis sets it for 30 days
//	o:<session>             channel: news for one session
//	i                       invalid responses of each session in the latest ten minutes, in JSON; with WithAddress it
//	                        is rl2:ip:{<address>}
//
// A session is one manager of a process. Messages only reduce delays: without them a process notices changes within a
// second or two.
package shared

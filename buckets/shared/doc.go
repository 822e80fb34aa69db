// Package shared lets several processes share Discord's limits through a server that stores values, so that together
// they behave like one client. Bot authors use buckets/shared/redis, which connects it to Redis or Valkey. Another
// server needs an [Engine], which only loads and replaces values, sends messages, and has a clock. The README tells
// operators how to set up the server, what to watch, and how to upgrade.
//
// A manager knows nothing of this but [Source] and the interfaces that it leads to. Their methods do not block; a
// process has calls of its own, and tells the manager when something has changed.
//
// # How it works
//
// The server stores and compares; all rules are in this package. Each value begins with its version. A process with
// news computes the next value from the one that it knows, and replaces that if the server still has the same version.
// If another process was faster, the reply contains its value, and the process computes the next one from that, after
// a random pause (contest). The new value is also sent to some processes that will need it. A process without news
// only loads.
//
// The state of a bucket is one value: a ratelimits.Window in bytes, with the waiting requests, the requests in flight,
// and the processes that use the bucket. Each process has at most one call for each bucket in progress; the next call
// carries the news that arose meanwhile. When permits become free, the process with the first place in the queue makes
// the call for all. An outcome that tells the others nothing new waits for the next call, 200 ms at most. All times in
// a value are by the server's clock, of which each process knows bounds.
//
// Each call also renews a value that lives for three seconds: while it is there, the process counts as alive. A process
// that has to know whether another one is alive loads that value.
//
// A bucket that only one process uses is lent to it (the process has a loan of it): that process decides by its own
// window, without calls. A loan lasts as long as the server hears from the process: one call a second, beat, is enough
// for all its loans. It also says which of them others need. After nine minutes the process returns it, before the
// server forgets the bucket, and its next request gets it again. The holder also returns it when another process needs
// the bucket, or has to report an outcome or a hold of it. The returned state contains the window and the requests in
// flight. A bucket is lent to a process that can send now, if no other process has used it for a second. A bucket whose
// period is longer than 10 s is never lent: if its holder died, the next process would wait for a whole period.
//
// A limit that the caller declares (buckets.WithLimit) is shared like a bucket, under a key that contains its name,
// limit and period. Responses say nothing about it: its state never begins unknown, no request goes first, and missing
// headers mean nothing. It is lent for a minute at a time at most. A request may need permits of several such limits;
// it keeps those that it has for two seconds while it asks for the others. Waiters ask again every 1.5 s, as for every
// bucket.
//
// The global limit of a credential is divided (division): each process has a part of it and sends no more than that.
// All parts are in one value. A process replaces it when it needs more than its part or much less, and looks at it once
// a second. Whoever replaces it gives each process what it needs, up to the whole limit, and some of the unused rest.
// What remains is free for processes that start or need more. When a part shrinks, the difference becomes available
// 1.25 s later, when no request sent with it can count any more. If the whole limit is in use, a process that starts
// waits that long, and has its equal part after 1.5 s. From the first reply on, predictions include this wait.
//
// A process without a global limit only registers for holds: every thirty seconds, or every second if it receives no
// messages.
//
// One process at a time finds out the bucket hash of a route (found), and passes it to all others. Until then requests
// wait in each process separately. No other process has asked for the bucket yet, so the discovering process may use up
// its first window. From the second window on, the requests of all processes are in one queue.
//
// Invalid responses are counted by application, or by address if WithAddress names one (counts). While there
// are none, a process asks once a minute.
//
// # What happens when something fails
//
// Calls can be lost, repeated or late. A state contains the number of the latest call of each process, so a process
// whose reply was lost sees whether the call took effect. A call has no effect once its process has given it up.
//
// Versions count up, and a process knows until when the server should store that it is alive. If the server has an
// older value, or knows less, it has lost state. A process that knows the server's clock also detects that the clock
// was set. The first process to detect either ends the era, which is a number on the server. From then on calls of the
// earlier era have no effect, and each process learns of the new era with its next call. A state of an earlier era, and
// what a process knows of one, is waited out: nothing is sent before the end of the window, nor in the first 1.2 s, in
// which all processes report their requests in flight. Then one request goes first. If the state of only one bucket is
// lost, processes that remember it do the same for that bucket. They remember it for nine minutes, or as long as its
// window lasts.
//
// A declared limit is not waited out, because its period may be a day. What any process remembers stays charged until
// its period ends, by the clock of that process, and the rest may be sent after 1.2 s. What no living process remembers
// is sent once more, so a loss costs one window's worth at most.
//
//	a process closes                  nothing: it returns its loans, and the others know its requests in flight
//	a process dies:
//	  its requests in flight          stay charged: for 3 s as in flight, then as sent at any time until then
//	  its waiters                     leave the queue after 3 s
//	  finding out a limit or hash     passes to the next process after 3 s
//	  its loans                       after 3 s the next process takes the bucket over, and waits for a whole period,
//	                                  10 s at most, because no process knows what was sent last
//	  its part of the global limit    goes to the others 4.25 s after its last call
//	a process is suspended for long,  it compares its wall clock with the monotonic one, and gives up its permits, its
//	or its wall clock is set          loans and its part of the global limit
//	a request has no outcome          it counts as unanswered after its lease (WithLease)
//	a call or its reply is lost       the call is repeated; each waits for its reply as long as WithCallTimeout says
//	the server is unavailable         see Outage
//	the server has lost all its       the first process that calls and has seen a later state ends the era, as above;
//	state, or has an older one        loans are returned and also waited out. Until then, a second at most if any
//	                                  process sends, processes that have not called since cannot notice the loss: an
//	                                  old state lets one window's worth leave, no state lets one request leave.
//	                                  Processes keep their parts of the global limit and report them within a second;
//	                                  the rest is divided 4.25 s later. A process that starts in that first second may
//	                                  get too much until the others have reported
//	the server evicts a single key    the same, for that key only. The holder of a loan does not notice that the state
//	                                  of its bucket is gone: another process that needs the bucket sends, too, until a
//	                                  response shows either one the other's requests; of a declared limit, until the
//	                                  loan is returned, a minute at most
//	the server's clock is set         by more than 250 ms: the same as a loss, also for the global limit; by less:
//	                                  windows in use end so much earlier or later. A virtual machine that stood still
//	                                  together with its wall clock takes that for a step of the server's clock, and
//	                                  all processes pause
//	a key holds a foreign value       KeyError, for all requests that wait for that bucket
//
// The server counts as unavailable when two calls in a row have failed, or when no call has succeeded for a second.
// From then on it is called again and again, at least once a second. Each manager logs once that the server is
// unavailable and once that it is back (WithLogger). Store.Outage, the manager's Stats, and the LimitSnapshot of a
// limit whose requests wait for the server report it, too.
//
// Under OutageWait a request waits up to its max wait or its context's deadline, and then fails with a
// *ratelimits.TooLongError that is also an *OutageError. A request that must not wait at all fails at once if the
// outage is known already, and after WithCallTimeout otherwise.
//
// A key with a foreign value is checked again after a second, when a request needs it. If a store is closed before its
// managers, all requests that need it fail with ErrClosed.
//
// # What the server keeps
//
// All values are strings. All keys begin with the version of the protocol, "rl2:", so that processes of different
// versions never read each other's keys. All but that of WithAddress begin with "rl2:{application}:", and are in one
// slot of a cluster. Each key expires by itself. No key contains a token.
//
//	b:<bucket>              the state of a bucket, for ten minutes after its last use and the end of its window, or a
//	                        period while anything is in flight; of a declared limit up to a day and ten minutes.
//	                        After the version it has the session that has the loan, "-" for none; the rest is numbers
//	                        of variable length
//	e                       the number of the era; two days
//	p:<session>             says that the session is alive; three seconds
//	w:<session>             its loans that other sessions need, if it receives no messages; six seconds
//	g:<credential>          parts of the global limit, amounts that are not free yet, the hold, in JSON; ten minutes
//	d:<credential>:<route>  bucket hash of the route, for a day after the last question; or the session that finds it
//	                        out and those that wait for it, in JSON
//	v                       says that the keys are ours; for 30 days, by Open of buckets/shared/redis
//	o:<session>             channel: news for one session
//	i                       invalid responses of each session in the latest ten minutes, in JSON; with WithAddress it
//	                        is rl2:ip:{<address>}
//
// A session is one manager of a process. Messages only reduce delays: without them a process notices changes within a
// second or two.
package shared

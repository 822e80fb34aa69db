// Package shared lets several processes share Discord's limits through a Redis or Valkey server, so that together they
// behave like one client. Bot authors use buckets/shared/redis, which connects it to a client library; this package
// only needs a [Runner], which runs scripts. The README has what operators need: how to set up the server, what to
// watch, how to upgrade.
//
// # How it works
//
// The state of a bucket is one value on the server: a ratelimits.Window in bytes, with the requests that wait, those
// that are in flight, and the processes that use the bucket. A process that has something to say works out the next
// state by itself, in Go, and the script swap puts it in the place of the one that the process knows. If another
// process was faster, the reply contains its state, and the process works out the next one from that. So the server
// compares, keeps and sends, and the rules of windows exist once. Each process has at most one such call for each
// bucket in progress; the next call says what came up meanwhile. All times in a state are those of the server's clock,
// of which each process knows bounds.
//
// A bucket that only one process uses is lent to it (the process has a loan of it): that process decides by its own
// window, without any calls. A loan lasts as long as the server hears of the process: one call a second, beat, is
// enough for all its loans. After nine minutes it is returned, before the server forgets the bucket, and the next
// request gets it again. When another process asks for the bucket, or has something to say of it (what became of a
// request that belongs there, or a hold), the holder is told and returns it with the window and the requests in flight.
// A bucket is lent to a process that has something to send now, if nobody else has used it for a second. One whose
// period is longer than 10 s is never lent, because if its holder died, the next process would wait for a whole period.
//
// A limit that the caller declares (buckets.WithLimit) is a bucket like others, under a key that contains its name,
// limit and period. As responses say nothing of it, its state never begins unknown: nothing goes first, and nothing
// that is missing in a response means anything. It is lent for a minute at a time at most. A request may need permits
// of several such buckets; those that it has it keeps for two seconds, while the others are asked. Those who wait for
// one ask every second and a half, as everywhere.
//
// The global limit of a credential is divided: each process has a part of it and keeps to that. Once a second, or at
// once if that is urgent, a call of the script part adapts the parts to the demand. A process gets what it needs, up to
// all of the limit, and some of the unused rest; what remains is free for processes that start or need more, which get
// it in one call. When a part shrinks, the difference becomes available a second and a quarter later, when no request
// sent with it can count any more. So if all of the limit is in use, a process that starts waits that long, and has its
// equal part after one and a half seconds. From the first reply on, this wait is predicted.
//
// A process without a global limit only registers for holds: every ten seconds, or every second if it receives no
// messages.
//
// One process at a time finds out the bucket hash of a route (script discover), and gives it to all others. Until then
// requests wait in each process by themselves: nobody else has asked for the bucket yet, so that process may use up its
// first window. From the second window on all are in one queue.
//
// Invalid responses are counted by application, or by address if WithAddress names one (script invalid); while there
// are none, a process asks once a minute.
//
// # What happens when something fails
//
// Calls can be lost, repeated or late. A state contains the number of the latest call of each process, so a process
// whose reply was lost sees whether the call has got through; and a call does nothing once its process has given it up.
//
// Each state has a version that counts up, and each call says until when the server should know that its process is
// alive. If what the server keeps is older than that, it has lost state; and a process that knows the server's clock
// sees if that was set. Whoever notices one of the two ends the era, which is a number on the server: from then on
// calls of the era before do nothing, so that all processes learn of it with their next call. A state of an earlier
// era, and what a process knows of one, is waited out: nothing is sent before the end of the window, nor in the first
// 1.2 s, in which all say what they have in flight, and then one request goes first. If only the state of one bucket is
// gone, the same goes for that, for processes that remember it: nine minutes, or as long as its window lasts.
//
// A declared limit is not waited out, as its period may be a day: what any process remembers stays charged until its
// period ends, by the clock of that process, and the rest may be sent after 1.2 s. What nobody alive remembers is sent
// once more, so a loss costs one window's worth at most.
//
//	a process closes                        nothing: its loans are returned, and the others know what is in flight
//	a process dies with requests in flight  they stay charged: for 3 s as in flight, then as sent at any time until then
//	a process dies that waits               its requests leave the queue after 3 s
//	a process dies that finds out a limit   the next one finds out, after 3 s
//	a process dies that has a loan          after 3 s the next one takes the bucket over, and waits for a whole period, 10 s at
//	                                        most: nobody knows what was sent last
//	a process dies that has a part of       the others get it 4.25 s after it was last heard of
//	the global limit
//	a process dies that finds out a route   the next one does, after 3 s
//	a process is suspended for longer       it compares its wall clock with the monotonic one, and uses nothing that it had: permits,
//	                                        loans, its part of the global limit
//	a request has no outcome                it counts as unanswered after its lease (WithLease)
//	a call or its reply is lost             it is repeated; an answer is waited for as long as WithCallTimeout says
//	the server is unavailable               see Outage
//	the server has lost all its state, or   the first process that calls and has seen a later one ends the era, as above; loans are returned and
//	has an older one                        also waited out. Until then, a second at most if any process is sending, those that have not
//	                                        heard from the server since cannot notice it: an old state lets one window's worth leave, none
//	                                        lets one request leave. Processes keep their parts of the global limit and report them within a
//	                                        second; the rest is divided 4.25 s later. A process that starts in that first
//	                                        second may get too much until the others have reported
//	the server evicts a single key          the same, for that key only. The holder of a loan does not notice that the state of its bucket
//	                                        is gone: another process that asks for it sends, too, until a response to one of them counts
//	                                        requests of the other; of a declared limit, until the loan is returned, a minute at most
//	the server's clock is set               the same as a loss, if by more than a quarter of a second; else windows in use end so much
//	                                        earlier or later. The global limit as after a loss. A virtual machine that stood still together
//	                                        with its wall clock takes that for a step of the server's, and all pause
//	a key holds a foreign value             KeyError, for all requests that wait for that bucket
//
// The server is held to be away when two calls in a row have failed, or when none has come through for a second. It is
// then called again and again, at least once a second. That it is away and that it is back is logged, once for each
// manager that notices (WithLogger); Store.Outage and Stats of the manager tell it to whoever asks, and a LimitSnapshot
// whose requests wait for it.
//
// Under OutageWait a request waits up to its max wait or its context's deadline, and then fails with a
// *ratelimits.TooLongError that is also an *OutageError. A request that must not wait at all fails at once if the outage
// is known already, and after WithCallTimeout otherwise.
//
// A key with a foreign value is checked again after a second, when a request needs it. If a store is closed before its
// managers, all requests that need it fail with ErrClosed.
//
// # What the server keeps
//
// All keys begin with the version of the protocol, "rl2:", so that processes of different versions never read each
// other's keys. All but that of WithAddress begin with "rl2:{application}:", and are in one slot of a cluster. Each key
// expires by itself. No key contains a token.
//
//	b:<bucket>              string: the state of a bucket, for ten minutes after its last use and the end of its window, or a period while
//	                        anything is in flight: of a declared limit up to a day and ten minutes. In front, as text, its
//	                        version (two numbers) and who has the loan, "-" for nobody; the rest is numbers of variable length
//	e                       string: the number of the era; two days
//	s                       sorted set: processes, by the time at which they count as dead without a call; ten minutes
//	w                       set: loans that others want back, for holders who do not hear messages; six seconds
//	g:<credential>          hash: parts of the global limit, slots that are not free yet, the hold; ten minutes
//	d:<credential>:<route>  hash: bucket hash of the route, for a day; or which process finds it out and which ones wait for it
//	v                       string: says that the keys are ours; for 30 days, by Open of buckets/shared/redis
//	o:<session>             channel: news for one process
//	i                       hash: invalid responses of each process in the latest ten minutes; with WithAddress it is
//	                        rl2:ip:{<address>}
//
// Messages only reduce delays: without them a process notices changes within a second or two.
package shared

// Package shared lets several processes share Discord's limits through a Redis or Valkey server, so that together they
// behave like one client. Bot authors use buckets/shared/redis, which connects it to a client library; this package only
// needs a [Runner], which runs scripts.
//
// # How it works
//
// The server keeps, for each bucket, a queue of tickets, the permits in flight and the window. A ticket is the place of
// one request. As many tickets at the head of the queue are granted permits as the window allows, whatever their
// process. The script exchange does all of this by the server's clock: it records the outcomes of requests and grants
// permits. Each process has at most one such call for each bucket in progress; the next call takes what came up
// meanwhile.
//
// A bucket that only one process uses is lent to it: that process decides by its own window, without any calls. One call
// a second, beat, renews all loans of a process. When another process asks for the bucket, the holder is notified and
// returns it with the outcomes of its requests.
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
// One process at a time finds out the bucket hash of a route (script discover), and gives it to all others. Invalid
// responses are counted by application, or by address if WithAddress names one (script invalid); while there are none, a
// process asks once a minute.
//
// # What happens when something fails
//
// Calls can be lost, repeated or late: they identify what they are about, so repeating one does no harm, and a call does
// nothing once its process has given it up.
//
//	a process closes                        what it knows of its buckets it has said before; its requests in flight as in the next line
//	a process dies that has permits         its requests stay charged; the next window waits up to 3 s for them
//	a process dies that waits               its tickets leave when they come to the head, after 3 s at most
//	a process dies that finds out a limit   the next one finds out, after 3 s
//	a process dies that has a loan          the loan ends after 3 s at most; then one request goes first
//	a process dies that has a part of       the others get it 4.25 s after it was last heard of
//	the global limit
//	a process dies that finds out a route   the next one does, after 3 s
//	a process is paused for longer          its permits and loans are void before others get them
//	a request has no outcome                it counts as unanswered after its lease (WithLease)
//	a call or its reply is lost             it is repeated after WithCallTimeout
//	the server is unavailable               see Outage
//	the server has lost its state           the processes report the windows that they know, and each is waited out; then
//	                                        one request goes first. A window that none reports in time may cause a 429.
//	                                        Processes keep their parts of the global limit and report them within a
//	                                        second; the rest is divided 4.25 s later. A process that starts in that first
//	                                        second may get too much until the others have reported
//	the server's clock steps back           the same
//	the server's clock steps forward by d   windows and leases end up to d too early, once; the global limit as after a loss
//	a key holds a foreign value             KeyError, for all requests that wait for that bucket
//
// The server is held to be away when two calls in a row have failed, or when none has come through for a second. It is then
// called again and again, at least once a second. That it is away and that it is back is logged, once for each manager that notices
// (WithLogger); Store.Outage and Stats of the manager tell it to whoever asks, and a BucketSnapshot whose requests wait for it.
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
// All keys except that of WithAddress begin with "rl:{application}:", and are in one slot of a cluster. Each key expires
// ten minutes after its last use, or later if a window or hold is longer; bucket hashes expire after a day. No key
// contains a token.
//
//	b:<bucket>              hash: the window, and the holder of the loan
//	q:<bucket>              sorted set: waiting tickets
//	f:<bucket>              sorted set: permits in flight, by the end of their lease
//	s                       sorted set: sessions, by the time at which they count as dead without a call
//	g:<credential>          hash: parts of the global limit, slots that are not free yet, the hold
//	d:<credential>:<route>  hash: bucket hash of the route, or which session finds it out and which ones wait for it
//	v                       string: identifies our keys and their version; for 30 days, by Open of buckets/shared/redis
//	o:<session>             channel: what a session should check
//	i                       hash: invalid responses of each session in the latest ten minutes; with WithAddress it is
//	                        rl:ip:{<address>}
//
// Messages only reduce delays: without them a process notices changes within a second.
package shared

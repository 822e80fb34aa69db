// Package shared lets several processes share Discord's limits through a Redis or Valkey server, so that together they behave like
// one careful client. Bot authors use buckets/shared/redis, which connects it to a client library; this package only needs
// something that runs scripts, a Runner.
//
// # How it works
//
// The server keeps, for each bucket, a queue of tickets, the permits in flight and the window. A ticket is the place of one request; the
// first ones in the queue are granted as many permits as the window has left, whosever they are. All of it happens in one script,
// exchange, by the server's clock: it takes in what became of requests, and grants permits. There is at most one such call at a time for
// each bucket and process; what comes up meanwhile travels with the next one.
//
// A bucket that one process uses is lent to it, and decided by its own window, without any calls. One call a second, beat, renews all
// loans of a process. When somebody else asks for the bucket, its holder is told, and returns it with all that became of it.
//
// The global limit of a credential is divided: each process has a part of it and paces itself, and once a second, at once if that is
// urgent, a call of the script part moves the parts towards what is needed. A process has what it needs, all of it if
// it needs that, and some of what nobody needs; the rest stays free for whoever comes or needs more, who gets it in one call. A part that
// shrinks goes to others a second and a quarter later, when nothing that was sent with it can count any more: so long a newcomer waits if
// all of the limit is needed, and has its fair part after one and a half seconds. That wait is predicted from the first answer on.
//
// A process without a global limit only says every ten seconds that it wants to hear of holds, every second if it hears no messages.
//
// One process at a time finds out the bucket hash of a route (script discover), and all know it from then on. Invalid responses are
// counted by application, or by address if WithAddress names one (script invalid); as long as nobody has counted any, a process asks once a minute.
//
// # What happens when something breaks
//
// Every call can be lost, repeated or late: it names what it is about, so that saying it twice does no harm, and does nothing if
// whoever made it has given up.
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
//	a request has no outcome                it counts as one without an answer after its lease (WithLease)
//	a call is lost, or its reply            it is made again after WithCallTimeout
//	the server is away                      see Outage
//	the server has lost its state           whoever knew a bucket's window says so, and it is waited out; then one request goes first.
//	                                        What nobody says in time may cost a 429
//	                                        What processes have of the global limit they keep, and say so within a second; what
//	                                        nobody claims is given out 4.25 s later. A process that starts in that first second
//	                                        cannot know of them, and may be given too much until they have spoken
//	the server's clock steps back           the same
//	the server's clock steps forward by d   windows and leases end up to d too early, once; the global limit as after a loss
//	a key holds what is not ours            KeyError, for all who wait for that bucket
//
// The server is held to be away when two calls in a row have failed, or when none has come through for a second. It is then
// called again and again, at least once a second. That it is away and that it is back is logged, once for each manager that notices
// (WithLogger); Store.Outage and Stats of the manager tell it to whoever asks, and a BucketSnapshot whose requests wait for it.
//
// Under OutageWait a request waits as long as it may, by its max wait or its context's deadline, and then fails with a
// *ratelimits.TooLongError that is an *OutageError, too. One that must not wait at all fails at once in an outage that is known, and
// after WithCallTimeout otherwise.
//
// A key that is not ours is looked at again a second after that was found, when somebody asks. A store that was closed before its
// managers lets all requests that need it fail with ErrClosed.
//
// # What the server keeps
//
// All keys but that of WithAddress begin with "rl:{application}:", and are in one slot of a cluster. Each has a life, of ten minutes after
// its last use unless a window or hold is longer, and a day for what was found out. None contains a token.
//
//	b:<bucket>              hash: the window, and who has the loan
//	q:<bucket>              sorted set: tickets that wait
//	f:<bucket>              sorted set: permits in flight, by the end of their lease
//	s                       sorted set: sessions, by when they are dead if nothing is heard of them
//	g:<credential>          hash: parts of the global limit, what cools down, the hold
//	d:<credential>:<route>  hash: bucket hash of the route, or who finds it out and who waits for that
//	v                       string: that the keys are ours, and of which version; for 30 days, by Open of buckets/shared/redis
//	o:<session>             channel: what a session should look at
//	i                       hash: invalid responses of each session in the latest ten minutes; with WithAddress it is rl:ip:{<address>}
//
// Messages only make things faster: without them a process notices within a second.
package shared

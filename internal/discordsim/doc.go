// Package discordsim is a fake Discord REST server that judges clients of its rate limits.
//
// Its central idea: a limit is enforced at the moment when the server processes a request, somewhere between the
// client's sending and its receiving, and afterwards the server, who alone knows all three moments, says which refusals
// a careful client could have avoided and how fast an ideal client would have been. The package knows nothing of how a
// client works and imports nothing of this module.
//
//	server, err := discordsim.New(discordsim.Config{
//		Rules: []discordsim.Rule{{
//			Method: "POST", Path: "/channels/{id}/messages",
//			Quota: discordsim.Fixed(5, time.Second),
//		}},
//		Latency: discordsim.RoundTrip(100 * time.Millisecond),
//	})
//	defer server.Close()
//	client := &http.Client{Transport: server.RoundTripper()}
//	// … requests to discordsim.BaseURL …
//	fmt.Println(server.Report().Avoidable.Total())
//
// # Layers
//
// A [Counter] counts one limit; there are three kinds, and variants of them. A [World] maps requests to counters, answers them and keeps the
// books; it is pure: time is an argument. A [Server] is a World behind HTTP: real sockets, connections in memory, or a
// bare round tripper, all of them in real time or in the time of a testing/synctest bubble.
//
// # When a refusal is avoidable
//
// A request is judged by what had been delivered to the client when the request was sent. The first that holds decides:
//
//  1. Told: an answer already delivered had said that nothing remains until a time not yet reached. That is a 429 of the
//     same limit whose wait is not over (counted from its delivery; the shorter of the times in header and body, as nobody can
//     know which is true when they differ), or limit headers with r remaining after which the client has already sent r others
//     into the same bucket. The time is the window's end; where places come back one by one, headers do not tell when the next
//     one does, and only rule 3 applies. A refusal without any time says "not within a second", or not before the reset that it
//     names. One by a hidden limit speaks only of requests like the refused one. Of several answers the one that was made last
//     counts, and of those that spoke of the same moment the one that was read first. Avoidable.
//  2. The limit had changed and no answer made and delivered since had said so; or headers had been falsified (a 429 that names a
//     shorter time than the true one in either place is one of these), within the last period or with no true answer since; or
//     headers had been withheld from the beginning, or the answers that had them were never read, or one was not and no other
//     had shown how long a place is taken; or (scope user) no client could have known which bucket it would be; or the bucket is a
//     log whose headers name the next place, and nothing had told so. The same holds if it was another request that had such an
//     excuse, sent later, which arrived before and was too much. Excused.
//  3. Scope user: the client's own requests occupy all places of the bucket, so it would have been refused even with
//     nobody else about. Global: the same, or its own requests exceed the limit in some one-second interval, whatever
//     the phase of the server's windows. Avoidable. A burst on a bucket never heard of belongs here: a careful client
//     sends one request first.
//  4. Everything else is unavoidable: the first refusal by a shared limit, a sub-limit or the edge, what others
//     have used up, and a block that a refusal has extended which had not been read.
//
// An answer to an accepted request with nothing remaining and nothing to wait for is neither true nor falsified: it
// describes a window that is over, and says nothing of the present one. It excuses only as long as no other answer has
// told when a window ends. Then a client is not blamed either for what fits into the longest time that it has been told. A leaky bucket whose Remaining names a place too many ([Lagging]) tells the truth in
// Reset-After. That excuses one request too many until such an answer has been read after another one: then the client
// knows by how much a request moves the reset. A refusal by a limit of errors ([ErrorLimit]) is avoidable if an answer
// to the same operation had named that limit before, and the latest refusal that named it says that its time is not
// over; otherwise it is unavoidable.
//
// Whether headers are true is found out by comparing what was sent with the state, so that a [Fault] need not confess.
// Headers that say less than the truth are no excuse.
//
// # Which bucket a request belongs to
//
// A client learns that from answers. A request of scope user is excused, even if the bucket's own answers had forbidden it, as
// long as no answer to the same operation had named the hash under which it was counted: not before, and not since the rule
// last changed hashes. It is blamed all the same for what no belief allows: a second request before the very first has been
// answered, and more in one channel at once than the limit that other channels have shown. Nor is it blamed if its requests fill a
// bucket only together with some of another operation that it had reason to believe elsewhere.
//
// Where chance decides between several buckets (during a roll-out, and where errors have a bucket of their own), it is blamed if all
// of those that had been named forbade the request, or if the answer to what was sent last was a 429 of the very bucket. When a
// roll-out is over, a client may believe what it heard last of a channel until it hears something newer of the same channel.
//
// # A limit that opens later than announced
//
// Headers announce when a bucket with a [Lateness] opens at the earliest; nothing announces a lateness of the global limit. A
// refusal is one by lateness if the client's own requests fill the limit, the request was sent after the announced opening (or
// another one was counted since, which could not know better), and a punctual limit would have had room for it and for all
// others that were refused at the same opening. For the global limit the announced opening is a period after the client's
// own requests. A lateness for which no answer has announced a longer time could be the request of another client; the
// refusal is unavoidable. Otherwise it is excused if
//
//   - no refusal that had shown as much lateness of this bucket had been delivered when it was sent. Requests in flight together
//     are excused together. Report.LateOpenings counts them as one. A refusal shows nothing if it could as well be the place
//     of another client for all that was read: the client knows neither how long the refusal travelled, nor how long the
//     requests did whose answers announced the opening. Another client's place is kept for the longest time that was
//     announced, in a leaky bucket for a part of that; or
//   - the client tried, after long enough, whether the bucket opens earlier by now: 2^k periods in which own requests were accepted
//     had passed since the last refusal by lateness. k counts the tries in vain since the largest lateness was shown. Such a try is
//     one request alone. It may be many if a request had been accepted since that refusal when less lateness had passed.
//
// Other refusals by lateness are avoidable: the client knew how late the bucket opens.
//
// # A log that names its next place
//
// The first answers of a [SlidingNext] log look like those of a fixed window that ends when the first place comes back. A client
// that knows all kinds holds each place for a period and is never refused. One that believes in the window sends a batch when that
// is over, and is refused: that batch is excused, and no request beyond what fits into a window, until accepted answers have been
// read that no fixed window, no log that names its last place and no leaky bucket can have given. If the network is too slow to
// tell, there may be several such batches. From then on its own requests are to blame as in any other log, but for what is longer ago than the
// longest reset-after that it has read: where others use the log, no answer may name the whole period. What holds in any kind is
// never excused: sending before the time that was named.
//
// # What is not known about Discord
//
// The order of the limits, and what a refused request has used up on its way, are not documented. Here the order is: edge,
// ban for invalid requests, global limit, bucket, then sub-limits and the limit of the resource. A request that is refused
// further in stays counted further out, which for sub-limits Discord's staff has confirmed.
package discordsim

// Package discordsim is a fake Discord REST server that judges clients of its rate limits.
//
// Its central idea: a limit is enforced at the moment when the server processes a request, somewhere between the
// client's sending and its receiving. Only the server knows all three moments. So afterwards it can say which refusals
// a careful client could have avoided, and how fast an ideal client would have been. The package knows nothing of how a
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
// A [Counter] counts one limit; there are three kinds, and variants of them. A [World] maps requests to counters,
// answers them and records what happens; it is pure: time is an argument. A [Server] is a World behind HTTP: real
// sockets, connections in memory, or a bare round tripper, all of them in real time or in the time of a
// testing/synctest bubble.
//
// # When a refusal is avoidable
//
// A request is judged by what had been delivered to the client when it was sent. The first rule that holds decides:
//
//  1. Told: an answer already delivered had said that nothing remains until a time not yet reached. That is a 429 of
//     the same limit whose wait is not over, counted from its delivery; if header and body differ, the shorter time
//     counts, as the client cannot know which is true. Or it is limit headers with r remaining after which the client
//     has already sent r others into the same bucket. The time is the window's end. Where places become free one by
//     one, headers do not tell when the next one does, and only rule 3 applies. A refusal without any time says "not
//     within a second", or not before the reset that it names. A refusal by a hidden limit concerns only requests like
//     the refused one. Of several answers the one made last counts, and of those about the same moment the one read
//     first. Avoidable.
//  2. The limit had changed and no answer made and delivered since had said so. Or headers had been falsified within
//     the last period, or with no true answer since (a 429 that names too short a time in either place is falsified).
//     Or headers had been withheld from the beginning, or the answers that had them were never read, or one was not and
//     no other had shown how long a place is taken. Or (scope user) no client could have known which bucket it would
//     be. Or the bucket is a log whose headers name the next place, and nothing had told so. The same holds if another
//     request had such an excuse, was sent later, arrived before and was the one too many. Excused.
//  3. Scope user: the client's own requests occupy all places of the bucket, so the request would have been refused
//     even without other clients. Global: the same, or its own requests exceed the limit in some one-second interval,
//     whatever the phase of the server's windows. Avoidable. A burst on an unknown bucket belongs here: a careful
//     client sends one request first.
//  4. Everything else is unavoidable: the first refusal by a shared limit, a sub-limit or the edge, a limit that other
//     clients have used up, and a block extended by a refusal that had not been read.
//
// An answer to an accepted request with nothing remaining and nothing to wait for is neither true nor falsified: it
// describes a window that is over, and says nothing of the present one. It excuses only until another answer has told
// when a window ends. After that the client may still send what fits into the longest time that it has been told. A
// leaky bucket whose Remaining names a place too many ([Lagging]) tells the truth in Reset-After. That excuses one
// request too many until such an answer has been read after another one: then the client knows by how much a request
// moves the reset. A refusal by a limit of errors ([ErrorLimit]) is avoidable if an answer to the same operation had
// named that limit before, and the time in the latest refusal by it is not over. Otherwise it is unavoidable.
//
// The judge finds out whether headers are true by comparing them with the state, so a [Fault] need not declare it.
// Headers that allow less than the truth are no excuse.
//
// # Which bucket a request belongs to
//
// A client learns that from answers. A refusal of scope user is excused unless an answer to the same operation had
// named the hash under which it was counted, after the rule last changed hashes. That holds even if the bucket's own
// answers had forbidden the request. The client is blamed all the same for what no bucket allows: a second request
// before the very first has been answered, and more in one channel at once than the limit that other channels have
// shown. It is not blamed if its requests fill a bucket only together with some of another operation that it had reason
// to expect elsewhere.
//
// Chance may decide between several buckets: during a roll-out, and where errors have a bucket of their own. Then the
// client is blamed if all buckets that had been named forbade the request. It is also blamed if the answer to the
// request sent last was a 429 of the very bucket. When a roll-out is over, a client may believe what it last heard of a
// channel until it hears something newer of the same channel.
//
// # A limit that opens later than announced
//
// Headers announce when a bucket with a [Lateness] opens at the earliest; nothing announces a lateness of the global
// limit. Three conditions make a refusal one by lateness. The client's own requests fill the limit. The request was
// sent after the announced opening, or another one was counted since, which could not know better. And a punctual limit
// would have had room for it and for all others that were refused at the same opening. For the global limit the
// announced opening is a period after the client's own requests. If no answer has announced a time longer than the
// lateness, the place could be another client's; the refusal is unavoidable. Otherwise it is excused if
//
//   - no refusal that had shown as much lateness of this bucket had been delivered when the request was sent. Requests
//     in flight together are excused together; Report.LateOpenings counts them as one. A refusal shows nothing if the
//     place could be another client's for all that was read. The client knows neither how long the refusal travelled,
//     nor how long the requests did whose answers announced the opening. Another client's place is kept for the longest
//     time that was announced, in a leaky bucket for a part of that; or
//   - the client tried, after long enough, whether the bucket opens earlier by now: 2^k periods in which own requests
//     were accepted had passed since the last refusal by lateness. k counts the refused tries since the largest
//     lateness was shown. Such a try is one request alone. It may be many if a request had been accepted since that
//     refusal when less lateness had passed.
//
// Other refusals by lateness are avoidable: the client knew how late the bucket opens.
//
// # A log that names its next place
//
// The first answers of a [SlidingNext] log look like those of a fixed window that ends when the first place becomes
// free. A client that knows all kinds holds each place for a period and is never refused. A client that believes in the
// window sends a batch when the window is over, and is refused. That batch is excused, but no request beyond what fits
// into a window. The excuse ends when accepted answers have been read that no fixed window, no log that names its last
// place and no leaky bucket can have given. If the network is too slow to tell, there may be several such batches. From
// then on the client's own requests are to blame as in any other log. Those longer ago than the longest reset-after
// that it has read are excepted: where other clients use the log, no answer may name the whole period. Sending before
// the time that was named is never excused, as no kind allows it.
//
// # What is not known about Discord
//
// The order of the limits, and what a refused request has used up on its way, are not documented. Here the order is:
// edge, ban for invalid requests, global limit, bucket, then sub-limits and the limit of the resource. A request that
// an inner limit refuses stays counted in the outer ones, which for sub-limits Discord's staff has confirmed.
package discordsim

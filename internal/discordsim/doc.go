// Package discordsim is a fake Discord REST server that judges clients of its rate limits.
//
// Its central idea: a limit is enforced at the moment when the server processes a request, after the client has sent
// the request and before the client receives the answer. Only the server knows all three moments, so afterwards the
// server can say which refusals a careful client could have avoided, and how fast an ideal client would have been. The
// package knows nothing of how a client works.
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
// A [Counter] counts the requests of one limit. There are three kinds of counters, and each kind has variants. A
// [World] maps requests to counters, answers the requests and records what happens. Its methods get the time as an
// argument. A [Server] is a World behind HTTP: real sockets, connections in memory, or a bare round tripper. The latter
// two also work in a testing/synctest bubble.
//
// # When a refusal is avoidable
//
// A limit of n requests has n places. Each accepted request takes a place until the limit frees that place. A request
// is judged by the answers that had been delivered to the client when the client sent the request. The first of these
// rules that applies decides:
//
//  1. Avoidable: an answer had said that no place would be free before a certain time, and that time had not been
//     reached. One such answer is a 429 of the same limit. The wait that this 429 names counts from its delivery. If
//     header and body of this 429 differ, the shorter time counts, because the client cannot know which one is true. If
//     the 429 names no wait, the wait is one second, or the time until the named reset if that time is shorter. A 429
//     of a hidden limit concerns only requests like the refused one. The other such answer has limit headers that name
//     r remaining requests, and the client has sent r other requests into the same bucket since. The time named by that
//     answer is the end of the window. Where places become free one by one, headers do not say when the next place
//     becomes free, and only rule 3 applies. Of several answers, the one that the server made last counts. Of answers
//     that name the same moment, the one that travelled back fastest counts.
//  2. Excused: the client could not know better, for one of these reasons. The limit had changed, and no answer made
//     since the change and delivered in time had shown it. Headers had been falsified within the last period, or no
//     true answer had followed the falsified ones (a 429 is falsified if its header or body names too short a time).
//     Headers had been withheld from the beginning, or the answers that had them were never read. One answer was never
//     read, and no other answer had shown how long a place is taken. For scope user: no client could know which bucket
//     would count the request. The bucket is a log whose headers name the next place, and no answer had shown that.
//     Perhaps a request that was sent after the refused one arrived before it and took the last place: an excuse for
//     that request is also an excuse for the refused one.
//  3. Avoidable: the limit is full of the client's own requests. For scope user, they occupy all places of the bucket.
//     For the global limit, they occupy all places, or exceed the limit in some interval as long as its period,
//     whatever the phase of the server's windows. This rule covers a burst on an unknown bucket: a careful client sends
//     one request first.
//  4. Unavoidable: every other refusal, such as the first refusal by a shared limit, a sub-limit or the edge, a limit
//     that other clients have used up, or a block that was extended by a refusal which the client had not read.
//
// An answer to an accepted request may say that nothing remains and that the reset is in 0 seconds. Such an answer
// counts neither as true nor as falsified: it describes a window that is over, and says nothing about the present
// window. It is an excuse only until another answer has named the end of a window. From then on a refusal is excused
// only if the client's requests within the longest time to the end of a window, as answers have named it, did not fill
// the bucket.
//
// In a [Lagging] bucket Remaining is one too high, but Reset-After is true. A client that believes an answer with such
// a Remaining is excused for one request too many. The excuse ends when the client has read such an answer after
// another answer that named a reset time, because the difference between the two reset times shows by how much a
// request moves the reset.
//
// A refusal by a limit of errors ([ErrorLimit]) is avoidable if two conditions hold: that limit had refused the same
// operation before, and the wait named by the latest refusal of that limit was not over. Otherwise the refusal is
// unavoidable.
//
// The judge compares headers with the true state, so a [Fault] need not declare that it falsifies headers. Headers that
// allow fewer requests than the true state are no excuse.
//
// # Which bucket a request belongs to
//
// A client learns from answers which bucket counts a request. A refusal of scope user is excused if the client could
// not know the bucket: no answer to the same operation had named the bucket's hash since the rule last changed hashes.
// The refusal is excused even if answers to other operations had shown that this bucket was full. However, the client
// is blamed for a request that no bucket allows. Such a request is a second request before the first request of the
// operation has been answered, or a request that makes more requests in flight in one channel than the limit named by
// answers from other channels. The client is not blamed if its requests fill the bucket only together with requests of
// another operation, and the client had reason to expect the requests of the other operation in another bucket.
//
// Chance may decide which bucket counts a request: during a roll-out (a change that reaches one server after the
// other), and where errors have a bucket of their own. In these cases the client is blamed if the request was forbidden
// by every bucket that answers had named. The client is also blamed if, of the answers that it had read, the answer to
// the request sent last was a 429 of the bucket that now refuses. After a roll-out the client may rely on the latest
// answer from a channel until it reads a newer answer from the same channel.
//
// # A limit that opens later than announced
//
// Headers announce when a bucket opens. A bucket with a [Lateness] opens later than announced. No header announces when
// the global limit opens, so the time one period after one of the client's own requests counts as its announced
// opening. Lateness is the cause of a refusal if three conditions hold. The client's own requests fill the limit. The
// request was sent after the announced opening, or another own request was counted after that opening while the limit
// was still late. And a punctual limit would have had room for the request and for all others that were refused at the
// same opening.
//
// If no answer has announced an opening further away than the lateness, another client may have taken the place that
// the request needed. The client cannot know this, so the refusal is unavoidable. If an answer has announced such an
// opening, the refusal is excused in two cases:
//
//   - When the request was sent, no refusal that shows so much lateness of this limit had been delivered. Requests in
//     flight together are excused together, and Report.LateOpenings counts them as one opening. A refusal shows no
//     lateness if, according to all answers that the client has read, another client may have taken the place. The
//     client does not know how long the refusal travelled. It does not know either how long the requests travelled
//     whose answers announced the opening. Another client's request is assumed to keep its place for the longest time
//     that was announced or, in a leaky bucket, for that time divided by the limit.
//   - The client tried whether the limit now opens earlier, and had waited long enough before. Since the last refusal
//     by lateness, own requests were accepted in at least 2^k periods. k is the number of refused tries since the
//     largest lateness was shown. Usually a try is a single request. It may consist of several requests if, since the
//     last refusal by lateness, a request had been accepted after less lateness.
//
// Every other refusal by lateness is avoidable, because the client knew how late the limit opens.
//
// # A log that names its next place
//
// The first answers of a [SlidingNext] log look like those of a fixed window that ends when the first place becomes
// free. A client that allows for every kind of bucket assumes that each request occupies its place for a whole period.
// That client is never refused. A client that takes the log for a fixed window sends a batch at the end of the supposed
// window, and is refused. The refusals of that batch are excused, up to the limit of a window. The excuse ends when the
// client has read answers, to accepted requests, that rule out three kinds: a fixed window, a log that names its last
// place, and a leaky bucket. With a slow network, several batches may be excused.
//
// After that, refusals are judged as in any other log, with one exception. If other clients use the log, perhaps no
// answer names the whole period. So own requests that are older than the longest Reset-After read so far do not count.
// A request that is sent before the named time is never excused.
//
// # What is not known about Discord
//
// Discord documents neither the order of the limits, nor which of them count a request that a later limit refuses. Here
// the order is: edge, ban for invalid requests, global limit, bucket, then sub-limits and the limit of the resource. A
// request that one limit refuses stays counted in the limits before it. For sub-limits, Discord's staff has confirmed
// this.
package discordsim

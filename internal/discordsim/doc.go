// Package discordsim is a fake Discord REST server that judges clients of its rate limits.
//
// Its central idea: a limit is enforced at the moment when the server processes a request, after the client has sent
// the request and before it receives the answer. Only the server knows all three moments. So afterwards it can say
// which refusals a careful client could have avoided, and how fast an ideal client would have been. The package knows
// nothing of how a client works and imports nothing of this module.
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
// A request is judged by the answers that had been delivered to the client when it was sent. The first rule that
// applies decides:
//
//  1. Avoidable: an answer had said that no place is free until a time that had not been reached. One such answer is a
//     429 of the same limit; its wait counts from its delivery. If its header and body differ, the shorter time counts,
//     because the client cannot know which is true. If the 429 names no wait, the wait is a second, or until the reset
//     that the 429 names if that is sooner. A 429 of a hidden limit concerns only requests like the refused one.
//     Another such answer has limit headers with r remaining, if the client has sent r other requests into the same
//     bucket since; the time is then the window's end. Where places become free one by one, headers do not say when the
//     next place becomes free, and only rule 3 applies. Of several answers the one that the server made last counts. Of
//     answers about the same moment the one that was read first counts.
//  2. Excused: the client could not know better. The limit had changed, and no answer made and delivered since had
//     shown that. Or headers had been falsified within the last period, or with no true answer since (a 429 is
//     falsified if its header or body names too short a time). Or headers had been withheld from the beginning, or the
//     answers that had them were never read. Or one answer was never read, and no other had shown how long a place is
//     taken. Or (scope user) no client could know which bucket would count the request. Or the bucket is a log whose
//     headers name the next place, and no answer had shown that. A request that was sent later but arrived earlier may
//     have taken the last place. If such a request has one of these excuses, it is an excuse for the refused request,
//     too.
//  3. Avoidable: the limit is full of the client's own requests. For scope user, they occupy all places of the bucket,
//     so the request would have been refused even without other clients. For the global limit, they do so or exceed the
//     limit in some one-second interval, whatever the phase of the server's windows. This rule covers a burst on an
//     unknown bucket: a careful client sends one request first.
//  4. Unavoidable: everything else, such as the first refusal by a shared limit, a sub-limit or the edge, a limit that
//     other clients have used up, or a block that was extended by a refusal which the client had not read.
//
// An answer to an accepted request may have nothing remaining and a Reset-After of 0. It is neither true nor falsified:
// it describes a window that is over, and says nothing about the present one. It is an excuse only until another answer
// has named the end of a window. After that a refusal is excused only if the client's requests did not fill the bucket
// within the longest time to a window's end that an answer has named.
//
// A leaky bucket whose Remaining is one too high ([Lagging]) has a true Reset-After. One request too many is excused
// until the client has read such an answer and, before it, another answer with a reset: then the client knows by how
// much a request moves the reset.
//
// A refusal by a limit of errors ([ErrorLimit]) is avoidable if an answer to the same operation had named that limit
// before, and the time in the latest refusal by that limit is not over. Otherwise it is unavoidable.
//
// The judge compares headers with the true state, so a [Fault] need not declare that it falsifies them. Headers that
// allow fewer requests than the true state are no excuse.
//
// # Which bucket a request belongs to
//
// A client learns from answers which bucket counts a request. A refusal of scope user is excused if the client could
// not know the bucket: no answer to the same operation had named the bucket's hash since the rule last changed hashes.
// The refusal is excused even if answers about the bucket had forbidden the request. The client is still blamed for
// what no bucket allows: a second request before the first of all has been answered, or more requests in one channel at
// once than the limit that other channels have shown. It is not blamed if its requests fill the bucket only together
// with requests of another operation that it had reason to expect in another bucket.
//
// Chance may decide between several buckets: during a roll-out, and where errors have a bucket of their own. Then the
// client is blamed if all buckets that answers had named forbade the request. It is also blamed if the answer to the
// request that it sent last was a 429 of the bucket that now refuses. After a roll-out a client may rely on the latest
// answer about a channel until it reads a newer one about the same channel.
//
// # A limit that opens later than announced
//
// Headers announce the earliest time at which a bucket with a [Lateness] opens. Nothing announces when the global limit
// opens: a period after one of the client's own requests counts as its announced opening. Lateness is the cause of a
// refusal if three conditions hold. The client's own requests fill the limit. The request was sent after the announced
// opening, or another own request was counted after it while the limit was still late. And a punctual limit would have
// had room for the request and for all others that were refused at the same opening.
//
// If no answer has announced a time longer than the lateness, another client may have taken the place, so the refusal
// is unavoidable. Otherwise it is excused in two cases:
//
//   - No refusal that shows as much lateness of this limit had been delivered when the request was sent. Requests in
//     flight together are excused together; Report.LateOpenings counts them as one opening. A refusal shows no lateness
//     if another client may have taken the place, according to all answers that were read. The client does not know how
//     long the refusal travelled, nor how long the requests travelled whose answers announced the opening. Another
//     client's place is taken for the longest time that was announced; in a leaky bucket, for that time divided by the
//     limit.
//   - The client tried whether the limit opens earlier now, after it had waited long enough: since the last refusal by
//     lateness own requests were accepted in 2^k periods. k is the number of refused tries since the largest lateness
//     was shown. A try is one request alone. It may be several requests if, since that refusal, a request had been
//     accepted after less lateness.
//
// Other refusals by lateness are avoidable: the client knew how late the limit opens.
//
// # A log that names its next place
//
// The first answers of a [SlidingNext] log look like those of a fixed window that ends when the first place becomes
// free. A client that considers all kinds of buckets keeps each place for a period, and is never refused. A client that
// believes in a fixed window sends a batch at the end of the window, and is refused. That batch is excused up to the
// limit of a window. The excuse ends when the client has read accepted answers that rule out a fixed window, a log that
// names its last place, and a leaky bucket. If the network is too slow to show that, several batches may be excused.
//
// From then on refusals are judged as in any other log, with one exception. Where other clients use the log, perhaps no
// answer names the whole period. So a request of the client that is older than the longest reset-after that the client
// has read does not count against the client. A request that is sent before the named time is never excused, because no
// kind allows it.
//
// # What is not known about Discord
//
// The order of the limits, and what a refused request has used up on its way, are not documented. Here the order is:
// edge, ban for invalid requests, global limit, bucket, then sub-limits and the limit of the resource. A request that
// an inner limit refuses stays counted in the outer ones, which for sub-limits Discord's staff has confirmed.
package discordsim

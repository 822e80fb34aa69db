// Package limitertest is a conformance suite for implementations of [httpclient.Limiter]. It tests the situations in
// which a limiter for Discord can fail: cancelled waits, 429s of every class, unknown routes, buckets of each kind at
// different round trips, other users of the same token, limits that change.
//
// [Core] is for every limiter: it tests that the limiter observes Discord's limits. [Strict] includes [Core], and tests
// all that package buckets promises. Call one of them from a test of the implementation:
//
//	func TestLimiter(t *testing.T) {
//		limitertest.Strict(t, func(t *testing.T) httpclient.Limiter {
//			manager := buckets.NewRESTBucketManager()
//			if err := manager.Start(); err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(func() { manager.Close() })
//			return manager
//		}, limitertest.WithMaxWait(buckets.DefaultMaxRateLimit))
//	}
//
// Each case is a subtest with its own limiter. A failure says what was expected, what happened, and why it matters. It
// also shows the steps so far of the case's script:
//
//	message1 gets 200 1/2 2s   a message in channel 1 is granted at once; by its response, one of two is left for 2 s
//	a: message1 goes           the next message, called a, must be granted at once
//	bc: message1 wait          two more must wait
//	a returns                  the lease of a ends with Return
//	b goes; c waits            then b must be granted, and c must still wait
//	send 13 message1           thirteen messages are sent to a fake Discord, which has the limits of earlier steps
//
// The fake Discord is that of package discordtest; the limiter gets its responses from [ratelimits.ParseResponse].
//
// # Time
//
// Each case runs in a [testing/synctest] bubble, in which its limiter is also made. Therefore minutes of waiting take
// no time, and every run is the same. For a limiter that communicates with another process, use [WithRealTime].
//
// # Optional promises
//
// Some limiters cannot keep every [Promise]; [Without] skips the cases of a promise. All other cases apply to every
// limiter, except that the cases of Close are skipped if the limiter is not an [io.Closer].
//
// To test limiters that share their state, pass a limiter that distributes requests among several of them.
//
// A wait that ends neither with its context nor with the limiter's Close or the test's cleanup cannot be stopped. The
// case reports such a wait as a failure, and then the bubble panics with the stack trace of the wait.
package limitertest

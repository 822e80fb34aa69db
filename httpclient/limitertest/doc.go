// Package limitertest tells whether an [httpclient.Limiter] behaves. It puts any implementation through the situations in
// which a limiter for Discord can fail: waiters that leave, refusals of every kind, routes nobody has seen, buckets of each
// kind under any round trip, somebody else who uses the same token, limits that change.
//
// There are two ways in. [Core] is for everybody's limiter: what has to hold so that Discord has nothing to complain of. [Strict] is what
// package buckets promises, and includes Core. They are called from a test of the implementation:
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
// Each case is a subtest with a name of its own and a limiter of its own. A failure says what was expected, what happened,
// and why it matters. Requests go to the fake Discord that is also behind package discordtest; the limiter sees of it what
// [ratelimits.ParseResponse] makes of an answer.
//
// # Time
//
// A case runs in a [testing/synctest] bubble, and the limiter is made in it: minutes pass in no time, and every run is the
// same. A limiter for which that cannot work, because it speaks to another process, is tested with [WithRealTime].
//
// # What a limiter may leave out
//
// What not every limiter can promise has a [Promise], and [Without] skips its cases. All other cases are for everybody,
// except that closing is tested only with a limiter that is an [io.Closer].
//
// A limiter that shares its state with others can be given as one that spreads requests over several of them.
//
// A wait that ends neither with its context nor with the limiter's Close or the test's cleanup cannot be ended from outside:
// the case reports it, and the bubble then panics and shows where it hangs.
package limitertest

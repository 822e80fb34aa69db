package buckets_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/internal/discordsim"
	"github.com/ratelight/ratelight/routes"
)

// The hash of a request's route is not known, so the request must be charged in all buckets of its major parameter.
func TestUndiscoveredRequestIsChargedWhereItMayCount(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		discover(t, m, message(1), limited("channel", 2, 1, time.Minute))
		discover(t, m, message(2), limited("channel", 2, 1, time.Minute))
		probe := ask(m, list(1))
		assert.Equal(t, 0, bucketOf(t, m, "1").Remaining)
		assert.Equal(t, 1, bucketOf(t, m, "2").Remaining, "buckets of another channel are not charged")
		waiting := ask(m, message(1))
		require.False(t, waiting.granted())
		probe.update(limited("elsewhere", 9, 8, time.Minute))
		assert.True(t, waiting.granted(), "the request was counted in another bucket")
	})
}

func TestUndiscoveredRequestIsChargedInBucketsThatAreFoundMeanwhile(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		probe, other := ask(m, list(1)), ask(m, list(2))
		require.True(t, probe.granted())
		require.False(t, other.granted(), "the probe is for all channels")
		discover(t, m, message(1), limited("channel", 3, 2, time.Minute))
		discover(t, m, message(2), limited("channel", 3, 2, time.Minute))
		assert.Equal(t, 1, bucketOf(t, m, "1").Remaining)
		assert.Equal(t, 2, bucketOf(t, m, "2").Remaining)
		probe.update(limited("channel", 3, 1, time.Minute))
		assert.Equal(t, 1, bucketOf(t, m, "1").Remaining, "the request is charged once")
		other.update(limited("channel", 3, 1, time.Minute))
		assert.Equal(t, 1, bucketOf(t, m, "2").Remaining)
	})
}

func TestUndiscoveredRequestThatIsLostStaysChargedWhereItMayCount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(buckets.Lease)
		left int
	}{
		"lost":         {buckets.Lease.Release, 0},
		"server error": {update(plain(502)), 0},
		"never sent":   {buckets.Lease.Return, 1},
		"elsewhere":    {update(limited("elsewhere", 5, 4, time.Minute)), 1},
	} {
		subtest(t, name, func(t *testing.T) {
			m := started(t)
			discover(t, m, message(1), limited("channel", 2, 1, time.Second))
			probe := ask(m, list(1))
			c.end(probe.lease)
			assert.Equal(t, c.left, snapshot(t, m, "channel").Remaining)
			wait(3 * time.Second)
			assert.Equal(t, 2, snapshot(t, m, "channel").Remaining,
				"the request is charged only as long as the server can count it")
		})
	}
}

func TestUndiscoveredRequestsAreChargedOnceWhenTheirRouteJoinsTheBucket(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithUnknownMode(buckets.UnknownUnlimited))
		discover(t, m, message(1), limited("channel", 10, 9, time.Minute))
		inFlight := asks(m, list(1), 3)
		require.Equal(t, 3, granted(t, inFlight))
		require.Equal(t, 6, bucketOf(t, m, "1").Remaining)
		inFlight[0].update(limited("channel", 10, 8, time.Minute))
		assert.Equal(t, 6, bucketOf(t, m, "1").Remaining)
		for i, c := range inFlight[1:] {
			c.update(limited("channel", 10, 7-i, time.Minute))
		}
		assert.Equal(t, 6, bucketOf(t, m, "1").Remaining)
	})
}

// Major parameters that are not valid Discord ids must be compared as strings, so that each has its own bucket.
func TestMajorParametersAreComparedAsTheyAre(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		ids := []string{"0", "00", "1", "01", "9223372036854775807", "9223372036854775808", "18446744073709551617",
			"12345678901234567890123"}
		for _, id := range ids {
			c := ask(m, compile(routes.GetChannel, id))
			require.True(t, c.granted(), id)
			c.update(limited("channel", 1, 0, time.Minute))
		}
		seen := make(map[string]bool)
		for b := range m.Buckets() {
			if b.Hash == "channel" {
				seen[b.Major] = true
				assert.False(t, strings.HasPrefix(b.Major, "-"))
			}
		}
		assert.Len(t, seen, len(ids))
	})
}

// Two new routes share a bucket. Whichever route is answered first, the requests must use the bucket's whole first
// window, but no more.
func TestTwoUnseenRoutesOfOneBucketUseItsWholeFirstWindow(t *testing.T) {
	t.Parallel()
	for name, quota := range map[string]discordsim.Quota{
		"fixed": discordsim.Fixed(5, 2*time.Second), "sliding": discordsim.Sliding(5, 2*time.Second),
	} {
		for seed := range uint64(20) {
			subtest(t, name+" "+strconv.FormatUint(seed, 10), func(t *testing.T) {
				config := one(discordsim.Rule{Quota: quota, Hash: "channel"})
				config.Seed, config.FullLog = seed, true
				config.Latency = discordsim.Latency{RoundTrip: 100 * time.Millisecond, Jitter: 80 * time.Millisecond}
				w := newWorld(t, config)
				for range 10 {
					w.post(1, 1)
					w.send(background, "GET", "/channels/1/messages", nil)
				}
				w.finish()
				refusedNothing(t, w)
				inTime := 0
				for _, e := range w.Events() {
					if e.At.Before(w.Events()[0].At.Add(2 * time.Second)) {
						inTime++
					}
				}
				assert.Equal(t, 5, inTime, "requests in the first window")
			})
		}
	}
}

// A route moves to another hash. The route's charges must move with it.
func TestChargesMoveWithTheirRoute(t *testing.T) {
	t.Parallel()
	for where, c := range map[string]struct {
		shares bool
		period time.Duration // permits of a bucket are lent if its period is at most ten seconds
	}{
		"to a group that had buckets before": {false, 10 * time.Second},
		"shared":                             {true, 20 * time.Second},
		"lent":                               {true, 10 * time.Second},
	} {
		subtest(t, where, func(t *testing.T) {
			m := started(t)
			if c.shares {
				m = started(t, buckets.WithShared(newStore(t)))
			}
			discover(t, m, list(9), limited("new", 5, 4, time.Second)) // another route already has this hash,
			wait(2 * time.Minute)                                      // and that route's bucket is evicted
			for channel := range 4 {
				discover(t, m, message(channel+1), limited("old", 5, 4, c.period))
				wait(time.Millisecond)
			}
			used := asks(m, message(4), 4)
			wait(time.Millisecond)
			for _, u := range used {
				answer(t, u, limited("old", 5, 0, c.period))
			}
			for channel := range 2 {
				wait(time.Millisecond)
				ask(m, message(channel+1)).update(limited("new", 5, 4, c.period))
			}
			wait(time.Millisecond)
			fourth := ask(m, message(4))
			wait(time.Millisecond)
			assert.False(t, fourth.granted(), "the bucket is used up, although its hash has changed")
		})
	}
}

// A request whose bucket is not known must be charged in all buckets that it may belong to, including buckets that are
// created when another route moves.
func TestUndiscoveredRequestIsChargedInTheBucketsThatAMoveMakes(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		post := ask(m, message(1)) // a slow request whose bucket is not known
		wait(time.Millisecond)
		probe := ask(m, list(2))
		wait(time.Millisecond)
		get := ask(m, list(1)) // the same major parameter as post
		require.True(t, post.granted() && probe.granted() && !get.done())
		wait(time.Millisecond)
		probe.update(limited("messages", 1, 0, 10*time.Second))
		wait(time.Millisecond)
		assert.False(t, get.granted(),
			"the server may count the first request in this bucket, whose limit is not known")
	})
}

// Each channel has its own hash. The first request of a route in a channel must be charged in all buckets that it may
// belong to, as on a route that was never seen.
func TestFirstRequestInAChannelWithAHashOfItsOwnIsChargedWhereItMayCount(t *testing.T) {
	withManager(t, func(t *testing.T, m *buckets.RESTBucketManager) {
		for _, channel := range []int{1, 3} { // shows that both routes have a hash for each channel
			own := "hash of " + strconv.Itoa(channel)
			discover(t, m, message(channel), limited(own, 5, 4, time.Minute))
			wait(time.Millisecond)
			discover(t, m, list(channel), limited(own, 5, 3, time.Minute))
			wait(time.Millisecond)
		}
		discover(t, m, message(2), limited("hash of 2", 5, 1, time.Minute)) // another client has used the bucket
		wait(time.Millisecond)
		require.True(t, ask(m, list(2)).granted())
		wait(time.Millisecond)
		assert.False(t, ask(m, message(2)).granted(), "the request in flight may use the permit that is left")
	})
}

package buckets_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// What is charged goes along with a route that moves, also into a limit group that had buckets before.
func TestChargesMoveIntoALimitGroupThatHadBucketsBefore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, list(9), limited("new", 5, 4, time.Second)) // another route has the hash already
		wait(2 * time.Minute)                                      // and its bucket is forgotten
		for channel := range 4 {
			discover(t, m, message(channel+1), limited("old", 5, 4, 10*time.Second))
		}
		for _, c := range asks(m, message(4), 4) {
			c.update(limited("old", 5, 0, 10*time.Second))
		}
		ask(m, message(1)).update(limited("new", 5, 4, 10*time.Second))
		wait(time.Millisecond)
		ask(m, message(2)).update(limited("new", 5, 4, 10*time.Second))
		wait(time.Millisecond)
		fourth := ask(m, message(4))
		assert.False(t, fourth.granted(), "the bucket is used up, whatever it is called now")
	})
}

// What is charged goes along with a route that moves, also where the buckets are shared.
func TestChargesMoveWhereBucketsAreShared(t *testing.T) {
	t.Parallel()
	for name, term := range map[string]time.Duration{"shared": 0, "lent": time.Minute} {
		subtest(t, name, func(t *testing.T) {
			h := newHub(t)
			h.term = term
			m := started(t, buckets.WithShared(h))
			for channel := range 4 {
				discover(t, m, message(channel+1), limited("old", 5, 4, 10*time.Second))
				wait(time.Millisecond)
			}
			used := asks(m, message(4), 4)
			wait(time.Millisecond)
			for _, c := range used {
				require.True(t, c.granted())
				c.update(limited("old", 5, 0, 10*time.Second))
			}
			wait(time.Millisecond)
			ask(m, message(1)).update(limited("new", 5, 4, 10*time.Second))
			wait(time.Millisecond)
			ask(m, message(2)).update(limited("new", 5, 4, 10*time.Second))
			wait(time.Millisecond)
			fourth := ask(m, message(4))
			wait(time.Millisecond)
			assert.False(t, fourth.granted(), "the bucket is used up, whatever it is called now")
		})
	}
}

// What is in flight on a route whose bucket is not known is charged in every bucket that it may belong to, also in
// those that the move of another route makes.
func TestUndiscoveredRequestIsChargedInTheBucketsThatAMoveMakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		post := ask(m, message(1)) // its bucket is not known, and it is in flight for long
		wait(time.Millisecond)
		probe := ask(m, list(2))
		wait(time.Millisecond)
		get := ask(m, list(1)) // the same major parameter as the first
		require.True(t, post.granted() && probe.granted() && !get.done())
		wait(time.Millisecond)
		probe.update(limited("messages", 1, 0, 10*time.Second))
		wait(time.Millisecond)
		assert.False(t, get.granted(), "the first request may be counted in this bucket, of which nobody knows how many it lets through")
	})
}

// Where channels have hashes of their own, the first request in a channel is one whose bucket is not known: it is
// charged wherever it may count, as on a route that was never seen.
func TestFirstRequestInAChannelWithAHashOfItsOwnIsChargedWhereItMayCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		for _, channel := range []int{1, 3} { // both routes have a hash for each channel
			own := "hash of " + strconv.Itoa(channel)
			discover(t, m, message(channel), limited(own, 5, 4, time.Minute))
			wait(time.Millisecond)
			discover(t, m, list(channel), limited(own, 5, 3, time.Minute))
			wait(time.Millisecond)
		}
		discover(t, m, message(2), limited("hash of 2", 5, 1, time.Minute)) // somebody else has used it
		wait(time.Millisecond)
		first := ask(m, list(2))
		require.True(t, first.granted())
		wait(time.Millisecond)
		last := ask(m, message(2))
		assert.False(t, last.granted(), "the place that is left may be that of the request in flight")
	})
}

// What is known of a channel's limit is what to expect of the next channel: a request there whose response says nothing
// may have been counted.
func TestRequestInANewChannelWhoseResponseSaysNothingIsCharged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t)
		discover(t, m, message(1), limited("messages", 1, 0, time.Minute))
		first := ask(m, message(2))
		require.True(t, first.granted())
		first.update(ratelimits.Response{Status: 503})
		next := ask(m, message(2))
		assert.False(t, next.granted(), "the only place may be taken")
		wait(time.Minute + time.Second)
		assert.True(t, next.granted())
	})
}

// When a route is found the requests of others that may belong to its buckets are charged there: each looked at once,
// not once per bucket. Eight times as many requests in flight should not be 64 times the work.
func BenchmarkRequestsInFlightWhenBucketsAreFound(b *testing.B) {
	find := func(n int) time.Duration {
		m := buckets.NewRESTBucketManager(buckets.WithMaxRateLimit(time.Hour), buckets.WithGlobalLimit(0),
			buckets.WithUnknownMode(buckets.UnknownUnlimited), buckets.WithInvalidBudget(0, 0, 0))
		require.NoError(b, m.Start())
		defer m.Close()
		var first buckets.Lease
		for i := range n {
			lease, err := m.Acquire(background, message(i+1), bot)
			require.NoError(b, err)
			if i == 0 {
				first = lease
			}
			_, err = m.Acquire(background, list(i+1), bot)
			require.NoError(b, err)
		}
		start := time.Now()
		first.Update(limited("messages", 5, 4, time.Minute))
		return time.Since(start)
	}
	var small, large time.Duration
	for b.Loop() {
		small += find(500)
		large += find(4000)
	}
	b.ReportMetric(float64(large)/float64(small), "x/eighth")
}

package buckets_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
)

// A request that is cancelled gives its turn back: that of its tenant, and the one of those with priority. So who waits
// in its place leaves as early as if nobody had been cancelled.
func TestCancelledRequestsGiveTheirTurnsBack(t *testing.T) {
	t.Parallel()
	used := limited("messages", 1, 0, time.Second)
	for _, priority := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			m := started(t, buckets.WithMaxRateLimit(time.Hour))
			discoverPunctual(t, m, message(1), used)
			var sent sentLog
			queueUp(m, always(message(1)), "b", 500, used, &sent)
			ctx := background
			if priority {
				ctx = buckets.ContextWithPriority(ctx)
			}
			for range 300 {
				c := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Group: "a"})
				c.cancel()
				wait(time.Microsecond)
				require.Error(t, c.failed())
			}
			c := call(ctx, m, buckets.Request{Route: message(1), Authorization: bot, Group: "a"})
			wait(5 * time.Second)
			assert.True(t, c.granted(), "priority: %t", priority)
			require.NoError(t, m.Close())
		})
	}
}

// orderOf lets requests to one channel wait, a millisecond after each other, of which each is subject to the declared
// limit of its key. It returns the numbers of those that were sent, in order.
func orderOf(t *testing.T, keys []string, used func() (hash string, limit, remaining int, after time.Duration), options ...buckets.Option) (order []int) {
	t.Helper()
	key := func(r *buckets.Request) string {
		if r.Fields == nil {
			return ""
		}
		return strings.Join(r.Fields(), "")
	}
	m := started(t, append(options, buckets.WithMaxRateLimit(time.Hour),
		buckets.WithLimit(buckets.ForAll(), 100, time.Second, buckets.PerKey(key)))...)
	discover(t, m, message(1), limited(used()))
	wait(2 * time.Second)
	for i, key := range keys {
		r := &buckets.Request{Route: message(1), Authorization: bot, Fields: func() []string { return []string{key} }}
		m.AcquireFunc(background, r, func(lease buckets.Lease, err error) {
			order = append(order, i)
			lease.Update(limited(used()))
		})
		wait(time.Millisecond)
	}
	wait(time.Duration(2*len(keys)) * time.Second)
	drained(t, m)
	return order
}

func roomyMessages() (string, int, int, time.Duration)  { return "messages", 1000, 999, time.Minute }
func singleMessages() (string, int, int, time.Duration) { return "messages", 1, 0, time.Second }

// Inside a bucket the order is that of arrival, also of requests that are subject to different declared limits and wait
// for the global limit.
func TestOrderOfABucketHoldsInLineForTheGlobalLimit(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		order := orderOf(t, []string{"a", "a", "a", "b", "a", "b"}, roomyMessages, buckets.WithGlobalLimit(1))
		assert.Equal(t, []int{0, 1, 2, 3, 4, 5}, order)
	})
}


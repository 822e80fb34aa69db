package buckets_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// More requests than are moved at a time keep their order when their bucket is found, and who comes then is behind
// them.
func TestVeryManyMoveInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(24*time.Hour), buckets.WithGlobalLimit(0))
		probe := ask(m, message(1))
		const n = 1000
		var sent []int
		add := func(i int) {
			buckets.AcquireFunc(context.Background(), m, request(message(1+i%2)), func(lease buckets.Lease, err error) {
				assert.NoError(t, err)
				sent = append(sent, i)
				lease.Update(limited("messages", 1, 0, time.Second))
			})
		}
		for i := range n {
			add(i)
		}
		probe.update(limited("messages", 1, 0, time.Second))
		for i := range 10 {
			add(n + i)
		}
		wait(time.Hour)
		require.Len(t, sent, n+10)
		last := [2]int{-1, -1}
		for _, i := range sent {
			require.Greater(t, i, last[i%2])
			last[i%2] = i
		}
	})
}

// More than are looked at at a time are rejected at once when a refusal makes their wait too long, and only those.
func TestVeryManyAreRejectedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := started(t, buckets.WithMaxRateLimit(1000*time.Second), buckets.WithGlobalLimit(0))
		discover(t, m, message(1), limited("messages", 2, 1, time.Second))
		last := ask(m, message(1))
		rejected, granted := 0, 0
		for range 1900 {
			buckets.AcquireFunc(context.Background(), m, request(message(1)), func(lease buckets.Lease, err error) {
				if err != nil {
					rejected++
					return
				}
				granted++
				lease.Update(limited("messages", 2, 1, time.Second))
			})
		}
		wait(0)
		require.Zero(t, rejected)
		last.update(inBucket(refused(ratelimits.ClassUser, 500*time.Second), "messages", 2, 0, 500*time.Second))
		wait(0)
		assert.InDelta(t, 900, rejected, 10)
		wait(2000 * time.Second)
		assert.Equal(t, 1900, rejected+granted)
		assert.InDelta(t, 900, rejected, 10)
	})
}

package buckets

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// A limit may be forgotten between its refusal and when the refused come to stand in line: they do not stand in that of a limit which
// nobody else asks any more.
func TestNobodyStandsInLineForAForgottenLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewRESTBucketManager(WithLimit(ForAll(), 1, time.Second), WithMaxRateLimit(time.Hour))
		require.NoError(t, m.Start())
		defer m.Close()
		route, err := routes.CreateMessage.Compile("1")
		require.NoError(t, err)
		lease, err := m.Acquire(context.Background(), route, "Bot x")
		require.NoError(t, err)
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "a", Limit: 9, Remaining: 8, ResetAfter: time.Second})
		granted, stand := false, 0
		m.AcquireFunc(context.Background(), &Request{Route: route, Authorization: "Bot x"}, func(lease Lease, err error) {
			require.NoError(t, err)
			granted = true
			lease.Return()
		})
		synctest.Wait()
		for b := range m.buckets.all() {
			if b.queues == nil {
				continue
			}
			for _, d := range m.limits.All() {
				q := b.queues.find(&b.foremost(b.now()).ask)
				b.mu.Lock()
				d.count(b.now(), q)
				d.mu.Lock()
				d.remove(q) // as if it had only been refused
				d.mu.Unlock()
				q.line = nil
				time.Sleep(2 * time.Second)
				d.evictIdle(m.now())
				d.enqueue(b.now(), q)
				stand += d.queues.Len()
				b.settle(b.now(), q)
				b.dispatchNow(b.now())
				b.mu.Unlock()
			}
		}
		synctest.Wait()
		require.Zero(t, stand)
		require.True(t, granted)
	})
}

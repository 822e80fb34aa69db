package shared_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

// BenchmarkLentBucket measures a request in a bucket that is lent to its process.
func BenchmarkLentBucket(b *testing.B) {
	memory := newServer()
	defer memory.Close()
	store, err := shared.New(memory)
	require.NoError(b, err)
	m := buckets.NewRESTBucketManager(buckets.WithShared(store), buckets.WithGlobalLimit(0))
	require.NoError(b, m.Start())
	defer m.Close()
	route, err := routes.Match("POST", "/channels/1/messages")
	require.NoError(b, err)
	send := func() {
		lease, err := m.Acquire(b.Context(), route, "Bot a")
		if err != nil {
			b.Fatal(err)
		}
		lease.Update(ratelimits.Response{Status: 200, Bucket: "h", Limited: true, Limit: 1 << 26, Remaining: 1<<26 - 1, ResetAfter: time.Second})
	}
	for range 3 {
		send()
	}
	time.Sleep(2 * time.Second)
	send()
	require.Equal(b, 1, m.Stats().Shared.Loans)
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}

package main

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// crowd is how many requests wait.
const crowd = 100_000

// BenchmarkNeighbour has a hundred thousand requests of one bot wait in one bucket, and reports how long requests of
// another bot take then, in percentiles, as a multiple of what they take when nobody waits. Slices of both take turns.
func BenchmarkNeighbour(b *testing.B) {
	route := messageTo(b, 1)
	manager := func(waiting int) *buckets.RESTBucketManager {
		m := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithMaxRateLimit(24*365*time.Hour), buckets.WithLogger(nil))
		require.NoError(b, m.Start())
		b.Cleanup(func() { _ = m.Close() })
		lease, err := m.Acquire(context.Background(), route, "Bot crowd")
		require.NoError(b, err)
		lease.Update(ratelimits.Response{Status: 200, Limited: true, Bucket: "messages", Limit: 1000, Remaining: 0, ResetAfter: time.Hour})
		for range waiting {
			go func() {
				lease, _ := m.Acquire(context.Background(), route, "Bot crowd")
				lease.Return()
			}()
		}
		for m.Stats().Waiting < waiting {
			runtime.Gosched()
		}
		return m
	}
	alone, crowded := manager(0), manager(crowd)
	answer := newServer()
	var took [2][]time.Duration
	b.ResetTimer()
	for range b.N {
		answer.advance(1)
		for i, m := range []*buckets.RESTBucketManager{alone, crowded} {
			for range 100 {
				start := time.Now()
				lease, err := m.Acquire(context.Background(), route, authorization)
				if err != nil {
					b.Fatal(err)
				}
				lease.Update(answer.parsed)
				took[i] = append(took[i], time.Since(start))
			}
		}
	}
	for _, percentile := range []struct {
		name string
		of   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
		var at [2]float64
		for i, all := range took {
			slices.Sort(all)
			at[i] = float64(all[int(percentile.of*float64(len(all)-1))])
		}
		b.ReportMetric(at[1]/at[0], percentile.name+"/alone")
	}
}

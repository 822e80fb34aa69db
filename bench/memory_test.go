package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
	"github.com/ratelight/ratelight/routes"
)

const million = 1_000_000

// BenchmarkBucketMemory makes a million buckets and reports the memory that each of them takes: right after its use,
// after some poll periods without use, and after its eviction.
func BenchmarkBucketMemory(b *testing.B) {
	for range b.N {
		clock := clockwork.NewFakeClock()
		collected := make(chan buckets.Collected)
		manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithClock(clock),
			buckets.WithHooks(buckets.Hooks{Collected: func(c buckets.Collected) { collected <- c }}))
		require.NoError(b, manager.Start())
		before := heap()
		report := func(unit string) { b.ReportMetric(float64(heap()-before)/million, unit) }
		response := ratelimits.Response{
			Status: 200, Limited: true, Bucket: "80c17d2f203122d936070c88c8d10f33", Limit: 5, Remaining: 4, ResetAfter: time.Hour,
		}
		for channel := range million {
			cycle(b, manager, messageTo(b, channel), response)
		}
		report("B/used")
		for range 3 {
			// The hook is called only if the collection evicts something, so give it a bucket to evict.
			brief := response
			brief.ResetAfter = time.Second
			cycle(b, manager, messageTo(b, million), brief)
			clock.Advance(buckets.DefaultPollPeriod)
			require.Equal(b, million, (<-collected).Left)
		}
		report("B/idle")
		clock.Advance(time.Hour)
		for (<-collected).Left > 0 {
			clock.Advance(buckets.DefaultPollPeriod)
		}
		report("B/collected")
		require.NoError(b, manager.Close())
	}
}

// heap returns the bytes in use after a full garbage collection.
func heap() int64 {
	for range 3 { // pools keep their objects through one collection
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func messageTo(b *testing.B, channel int) routes.CompiledRoute {
	route, err := routes.CreateMessage.Compile(fmt.Sprint(firstChannel + channel))
	if err != nil {
		b.Fatal(err)
	}
	return route
}

// BenchmarkWaiters queues more and more requests in one bucket. It reports the time to queue, to grant and to cancel
// each of them, in random order. The time must not depend on their number.
func BenchmarkWaiters(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				benchmarkWaiters(b, n)
			}
		})
	}
}

func benchmarkWaiters(b *testing.B, n int) {
	clock := clockwork.NewFakeClock()
	manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithClock(clock), buckets.WithMaxRateLimit(24*time.Hour))
	require.NoError(b, manager.Start())
	route := messageTo(b, 1)
	usedUp := ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 2 * n, ResetAfter: time.Hour}
	var waiting sync.WaitGroup
	measure := func(name string, act func()) {
		start := time.Now()
		act()
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(n), "ns/"+name)
	}
	contexts, cancels := make([]context.Context, n), make([]func(), n)
	queue := func() {
		for i := range contexts {
			waiting.Go(func() {
				lease, _ := manager.Acquire(contexts[i], route, authorization)
				lease.Release()
			})
		}
		for manager.Stats().Waiting < n {
			runtime.Gosched()
		}
	}
	for i := range contexts {
		contexts[i], cancels[i] = context.WithCancel(context.Background())
	}

	cycle(b, manager, route, usedUp)
	measure("queued", queue)
	measure("granted", func() {
		clock.Advance(time.Hour + time.Second)
		waiting.Wait()
	})
	cycle(b, manager, route, usedUp)
	queue()
	measure("cancelled", func() {
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
			cancels[i]()
		}
		waiting.Wait()
	})
	require.NoError(b, manager.Close())
}

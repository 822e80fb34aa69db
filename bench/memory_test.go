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

// BenchmarkBucketMemory makes a million buckets and reports what each of them takes, all included: when it has just
// been used, when it was not used for some poll periods, and what is left of it when it has been collected.
func BenchmarkBucketMemory(b *testing.B) {
	for range b.N {
		clock := clockwork.NewFakeClock()
		collected := make(chan buckets.Collected)
		manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithClock(clock), buckets.WithLogger(nil),
			buckets.WithHooks(buckets.Hooks{Collected: func(c buckets.Collected) { collected <- c }}))
		require.NoError(b, manager.Start())
		before := heap()
		response := ratelimits.Response{Status: 200, Limited: true, Bucket: "80c17d2f203122d936070c88c8d10f33", Limit: 5, Remaining: 4, ResetAfter: time.Hour}
		for channel := range million {
			cycle(b, manager, messageTo(b, channel), response)
		}
		b.ReportMetric(perBucket(heap()-before), "B/used")
		// A collection is announced only if it removes something, so there is something to remove each time.
		collect := func() buckets.Collected {
			brief := response
			brief.ResetAfter = time.Second
			cycle(b, manager, messageTo(b, million), brief)
			clock.Advance(buckets.DefaultPollPeriod)
			return <-collected
		}
		for range 3 {
			require.Equal(b, million, collect().Left)
		}
		b.ReportMetric(perBucket(heap()-before), "B/idle")
		clock.Advance(time.Hour)
		for c := range collected {
			if c.Left == 0 {
				break
			}
			clock.Advance(buckets.DefaultPollPeriod)
		}
		b.ReportMetric(perBucket(heap()-before), "B/collected")
		require.NoError(b, manager.Close())
	}
}

func messageTo(b *testing.B, channel int) routes.CompiledRoute {
	route, err := routes.CreateMessage.Compile(fmt.Sprint(900_000_000_000_000_000 + channel))
	if err != nil {
		b.Fatal(err)
	}
	return route
}

func perBucket(bytes int64) float64 { return float64(bytes) / million }

// heap returns how many bytes are in use after everything was collected that can be.
func heap() int64 {
	for range 3 { // what pools keep goes in two steps
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkWaiters lets more and more requests wait in one bucket, and reports what each of them takes but for its
// goroutine, and how long it takes to queue it, to cancel it (in an order that has nothing to do with the queue's), and
// to let it go: all of which must not depend on how many there are.
func BenchmarkWaiters(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkWaiters(b, n) })
	}
}

func benchmarkWaiters(b *testing.B, n int) {
	for range b.N {
		clock := clockwork.NewFakeClock()
		manager := buckets.NewRESTBucketManager(buckets.WithGlobalLimit(0), buckets.WithClock(clock), buckets.WithMaxRateLimit(24*time.Hour))
		require.NoError(b, manager.Start())
		route := messageTo(b, 1)
		cycle(b, manager, route, ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 2 * n, ResetAfter: time.Hour})
		requests := make([]buckets.Request, n)
		var left sync.WaitGroup
		queue := func(contexts []context.Context) time.Duration {
			left.Add(n)
			start := time.Now()
			for i := range requests {
				requests[i] = buckets.Request{Route: route, Authorization: authorization}
				go func() {
					lease, _ := manager.AcquireRequest(contexts[i], &requests[i])
					lease.Release()
					left.Done()
				}()
			}
			for manager.Stats().Waiting < n {
				runtime.Gosched()
			}
			return time.Since(start)
		}
		each := func(name string, took time.Duration) {
			b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/"+name)
		}

		patient := make([]context.Context, n)
		for i := range patient {
			patient[i] = context.Background()
		}
		warm(n)
		before := heap()
		each("queued", queue(patient))
		b.ReportMetric(float64(heap()-before)/float64(n), "B/waiter")
		start := time.Now()
		clock.Advance(time.Hour + time.Second)
		left.Wait()
		each("drained", time.Since(start))

		cycle(b, manager, route, ratelimits.Response{Status: 200, Limited: true, Bucket: "h", Limit: 2 * n, ResetAfter: time.Hour})
		impatient, cancels := make([]context.Context, n), make([]func(), n)
		for i := range impatient {
			impatient[i], cancels[i] = context.WithCancel(context.Background())
		}
		queue(impatient)
		start = time.Now()
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
			cancels[i]()
		}
		left.Wait()
		each("cancelled", time.Since(start))
		require.NoError(b, manager.Close())
	}
}

// warm makes the goroutines that are about to be needed. The runtime keeps what they are made of, so that afterwards
// only what waiters themselves take is counted.
func warm(n int) {
	left, right := make(chan struct{}), make(chan struct{})
	var waiting, all sync.WaitGroup
	waiting.Add(n)
	for range n {
		all.Go(func() {
			waiting.Done()
			select {
			case <-left:
			case <-right:
			}
		})
	}
	waiting.Wait()
	close(left)
	all.Wait()
}

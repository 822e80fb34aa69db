package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/routes"
)

// contender is an operation whose cost is compared. do runs it once; i differs from call to call.
type contender struct {
	name string
	do   func(i int)
}

// sliceLength is how many operations of a contender run before the next contender has its turn. A slice takes less
// than about a millisecond, so that other programs seldom interrupt it.
const sliceLength = 1024

// compare lets the contenders take turns, each with the given number of goroutines. It calls before ahead of each round
// with the number of operations. It reports how many times as long the first contender takes as each of the others.
// The benchmark's ns/op and allocations are those of the first contender.
func compare(b *testing.B, callers int, before func(n int), contenders []contender) {
	b.Helper()
	times := make([][]float64, len(contenders))
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for done := 0; done < b.N; done += sliceLength {
		n := min(sliceLength, b.N-done)
		before(n)
		for i, c := range contenders {
			if i == 0 {
				b.StartTimer()
			}
			took := runSlice(callers, done, n, c.do)
			b.StopTimer()
			times[i] = append(times[i], float64(took)/float64(n))
		}
	}
	for i, c := range contenders[1:] {
		b.ReportMetric(undisturbed(times[0])/undisturbed(times[i+1]), "x/"+c.name)
	}
	b.ReportMetric(undisturbed(times[0]), "ns/undisturbed")
}

// runSlice runs an operation n times in all and returns how long that took.
func runSlice(callers, from, n int, do func(i int)) time.Duration {
	start := time.Now()
	if callers == 1 {
		for i := from; i < from+n; i++ {
			do(i)
		}
		return time.Since(start)
	}
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for i := from + caller; i < from+n; i += callers {
				do(i)
			}
		})
	}
	group.Wait()
	return time.Since(start)
}

// undisturbed returns the 10th percentile. Other programs only make slices longer, and the shortest slice is luck.
func undisturbed(times []float64) float64 {
	if len(times) == 0 {
		return math.NaN()
	}
	slices.Sort(times)
	return times[len(times)/10]
}

// rateLimiters is the reference of limiters without feedback: a limiter of golang.org/x/time/rate for each route.
func rateLimiters(known []routes.CompiledRoute) func(i int) {
	ctx := context.Background()
	if len(known) == 1 {
		limiter := rate.NewLimiter(1e9, 1e9)
		return func(int) { _ = limiter.Wait(ctx) } // it has room, so there is no error
	}
	var limiters sync.Map
	for _, route := range known {
		limiters.Store(route.Major().ID, rate.NewLimiter(1e9, 1e9))
	}
	return func(i int) {
		limiter, _ := limiters.Load(known[i%len(known)].Major().ID)
		_ = limiter.(*rate.Limiter).Wait(ctx)
	}
}

// segments is the least work of matching a path: looking up each of its segments in a map.
func segments(path string) func(i int) {
	known := make(map[string]bool)
	for segment := range strings.SplitSeq(path, "/") {
		known[segment] = true
	}
	return func(int) {
		for segment := range strings.SplitSeq(path, "/") {
			if !known[segment] {
				panic("bug: the segment is in the map")
			}
		}
	}
}

// floor is the least work of a limiter with feedback: reading the clock, and two look-ups under an uncontended lock.
func floor(known []routes.CompiledRoute) func(i int) {
	hashes, used := make(map[routes.Route]string), make(map[string]int)
	for _, route := range known {
		hashes[route.Route()], used[route.Major().ID] = "hash", 0
	}
	var mu sync.Mutex
	var latest time.Time
	return func(i int) {
		route := known[i%len(known)]
		mu.Lock()
		defer mu.Unlock()
		latest = time.Now()
		if hashes[route.Route()] == "" || used[route.Major().ID] != 0 || latest.IsZero() {
			panic("bug: the route is in both maps")
		}
	}
}

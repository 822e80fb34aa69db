package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/ratelight/ratelight/routes"
)

// contender is one of several things whose costs are compared. do does it once; i differs from call to call.
type contender struct {
	name string
	do   func(i int)
}

// slice is how many times a contender does its thing before the next one has its turn. All of a slice takes less than a
// millisecond or so, in which a shared machine seldom does anything else.
const slice = 1024

// compare lets the contenders take turns, with so many goroutines each, and calls before each round with how many times
// each of them is about to do its thing. It reports how many times as long the first one takes as each of the others.
// The benchmark's ns/op and allocations are the first contender's.
func compare(b *testing.B, callers int, before func(n int), contenders []contender) {
	b.Helper()
	times := make([][]float64, len(contenders))
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for done := 0; done < b.N; done += slice {
		n := min(slice, b.N-done)
		before(n)
		for i, c := range contenders {
			if i == 0 {
				b.StartTimer()
			}
			took := together(callers, done, n, c.do)
			b.StopTimer()
			times[i] = append(times[i], float64(took)/float64(n))
		}
	}
	for i, c := range contenders[1:] {
		b.ReportMetric(undisturbed(times[0])/undisturbed(times[i+1]), "x/"+c.name)
	}
	b.ReportMetric(undisturbed(times[0]), "ns/undisturbed")
}

// together does something n times in all, and returns how long that took.
func together(callers, from, n int, do func(i int)) time.Duration {
	start := time.Now()
	if callers == 1 {
		for i := from; i < from+n; i++ {
			do(i)
		}
		return time.Since(start)
	}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := from + caller; i < from+n; i += callers {
				do(i)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// undisturbed is the time that one slice in ten does not exceed. What else the machine does only makes slices longer,
// and on a busy one it may be most of them that it meets. The shortest slice of all would be a matter of luck.
func undisturbed(times []float64) float64 {
	if len(times) == 0 {
		return math.NaN()
	}
	slices.Sort(times)
	return times[len(times)/10]
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// rateLimiters is the reference of limiters that get no feedback: one of golang.org/x/time/rate for each route, found
// in a map where there are several.
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
		limiter, ok := limiters.Load(known[i%len(known)].Major().ID)
		if !ok {
			panic(fmt.Sprint("no limiter for ", i))
		}
		_ = limiter.(*rate.Limiter).Wait(ctx)
	}
}

// segments is the least that recognising a path can do: looking up each of its segments in a map.
func segments(path string) func(i int) {
	known := map[string]bool{}
	for segment := range strings.SplitSeq(path, "/") {
		known[segment] = true
	}
	return func(int) {
		for segment := range strings.SplitSeq(path, "/") {
			if !known[segment] {
				panic("it was known")
			}
		}
	}
}

// floor is the least work of a limiter with feedback: a clock reading and two look-ups under a lock without contention.
func floor(known []routes.CompiledRoute) func(i int) {
	hashes, used := map[routes.Route]string{}, map[string]int{}
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
			panic("it was known")
		}
	}
}

package main

import (
	"sync"
	"testing"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// BenchmarkScaling compares the throughput of two goroutines with that of one: the metric "x/alone" is 2 if they do not
// get in each other's way at all, and 1 if only one of them works at a time. On one bucket they share its lock; with a
// global limit they share that of the credential. With a manager for each they share nothing but the machine, so that
// is the most that there can be.
func BenchmarkScaling(b *testing.B) {
	for _, c := range []struct {
		name     string
		buckets  int
		managers int
		global   int
	}{
		{"one bucket", 1, 1, 0},
		{"one bucket each, a manager each", 1, 2, 0},
		{"a hundred buckets", 100, 1, 0},
		{"a hundred buckets, a manager each", 100, 2, 0},
		{"many buckets", manyBuckets, 1, 0},
		{"many buckets, a manager each", manyBuckets / 2, 2, 0},
		{"a hundred buckets, global limit", 100, 1, 1_000_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			known, s := channels(b, c.buckets), newServer()
			managers := make([]*buckets.RESTBucketManager, 2)
			for i := range managers {
				managers[i] = managers[0]
				if i < c.managers {
					managers[i] = newManager(b, s, known, buckets.WithGlobalLimit(c.global))
				}
			}
			const each = 4 * slice
			var times [2][]float64
			b.StopTimer()
			b.ResetTimer()
			for done := 0; done < b.N; done += each {
				s.advance(3 * each)
				for i := range times {
					if i == 0 {
						b.StartTimer()
					}
					took := race(i+1, func(goroutine int) {
						for n := range each {
							cycle(b, managers[goroutine], at(known, done+n+goroutine*each), s.parsed)
						}
					})
					b.StopTimer()
					times[i] = append(times[i], float64(took)/float64(i+1))
				}
			}
			b.ReportMetric(median(times[0])/median(times[1]), "x/alone")
		})
	}
}

// race returns how long so many goroutines take that do the same.
func race(goroutines int, do func(goroutine int)) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := range goroutines {
		all.Go(func() { do(i) })
	}
	all.Wait()
	return time.Since(start)
}

// at spreads the calls over the routes, so that goroutines do not follow each other.
func at(known []routes.CompiledRoute, i int) routes.CompiledRoute {
	const stride = 7919 // a prime
	return known[i*stride%len(known)]
}

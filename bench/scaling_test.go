package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/routes"
)

// BenchmarkScaling compares the throughput of two goroutines with that of one: the metric "x/alone" is 2 if they do not get in
// each other's way at all, and 1 if only one of them works at a time. On one bucket they share its lock; with a global limit they
// share that of the credential.
func BenchmarkScaling(b *testing.B) {
	for _, c := range []struct {
		name    string
		buckets int
		global  int
	}{{"one bucket", 1, 0}, {"many buckets", manyBuckets, 0}, {"many buckets, global limit", manyBuckets, 1_000_000}} {
		b.Run(c.name, func(b *testing.B) {
			known, s := channels(b, c.buckets), newServer()
			manager := newManager(b, s, known, buckets.WithGlobalLimit(c.global))
			var times [2][]float64
			b.StopTimer()
			b.ResetTimer()
			for done := 0; done < b.N; done += 4 * slice {
				s.advance(8 * slice)
				for i := range times {
					if i == 0 {
						b.StartTimer()
					}
					took := together(i+1, done, 4*slice, func(i int) { cycle(b, manager, at(known, i), s.parsed) })
					b.StopTimer()
					times[i] = append(times[i], float64(took))
				}
			}
			require.NotEmpty(b, times[1])
			b.ReportMetric(median(times[0])/median(times[1]), "x/alone")
		})
	}
}

// at spreads the calls over the routes, so that goroutines do not follow each other.
func at(known []routes.CompiledRoute, i int) routes.CompiledRoute {
	const stride = 7919 // a prime
	return known[i*stride%len(known)]
}

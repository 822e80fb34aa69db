package main

import (
	"testing"
	"time"
)

// BenchmarkFirstVisits measures the cost of a request on a route that is new to the limiter, in slices that alternate
// with slices of discordgo. x/discordgo is the time as a multiple of discordgo's time. Earlier buckets stay in memory,
// as in a bot that uses one new channel after another.
func BenchmarkFirstVisits(b *testing.B) {
	for _, l := range limitersUnderTest() {
		b.Run(l.name, func(b *testing.B) {
			b.ReportAllocs()
			var ratios, took []float64
			for range b.N {
				b.StopTimer()
				tested, reference := l.open(b, manyRoutes), discordgoCycle(b, manyRoutes)
				b.StartTimer()
				for first := 0; first+slice <= manyRoutes; first += slice {
					d, dReference := visit(b, tested, first), visit(b, reference, first)
					took = append(took, float64(d.Nanoseconds())/slice)
					ratios = append(ratios, d.Seconds()/dReference.Seconds())
				}
			}
			b.ReportMetric(median(ratios), "x/discordgo")
			b.ReportMetric(median(took), "ns/visit")
		})
	}
}

// visit runs a cycle on each of a slice of routes that are new to the limiter.
func visit(b *testing.B, once cycle, first int) time.Duration {
	start := time.Now()
	for route := first; route < first+slice; route++ {
		if err := once(route); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

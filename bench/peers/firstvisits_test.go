package main

import (
	"testing"
	"time"
)

// BenchmarkFirstVisits is what a request costs on a route that the limiter has never met, in slices that take turns
// with discordgo's: x/discordgo says how many times as long it takes. What was made before stays, as it does in a bot
// that meets one channel after another.
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

// visit meets a slice of the routes for the first time.
func visit(b *testing.B, once cycle, first int) time.Duration {
	start := time.Now()
	for route := first; route < first+slice; route++ {
		if err := once(route); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

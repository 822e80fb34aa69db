package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// mostHeld bounds how many buckets, how many credentials and how many servers a scrape examines. If more of one kind
// are held, ratelight_holds is too low.
const mostHeld = 1024

var (
	holdsDesc = describe("holds",
		"Holds that are not over, by the class of the 429 that caused them.", "class")
	holdEndDesc = describe("hold_remaining_seconds",
		"Time until the last hold of the class ends; 0 if there is no hold.", "class")
	predictedDesc = describe("longest_predicted_wait_seconds",
		"Longest predicted wait of a request that arrives now, among all buckets in which requests wait.")
	inUseDesc = describe("global_in_use",
		"Requests that count against the global limit now, for the credential with the most such requests.")
	limitDesc = describe("global_limit",
		"Limit per second, for this process and the credential of ratelight_global_in_use. 0: no limit or no requests.")
)

// collectBusy collects the metrics of the buckets, global limits and edges that are held or for which requests wait.
func collectBusy(out chan<- prometheus.Metric, s *buckets.Status) {
	var holds [ratelimits.NumClasses]int
	var ends [ratelimits.NumClasses]time.Duration
	note := func(class ratelimits.Class, remaining time.Duration) {
		if remaining > 0 && int(class) < len(holds) {
			holds[class]++
			ends[class] = max(ends[class], remaining)
		}
	}
	var longest time.Duration
	for i := range s.Buckets {
		b := &s.Buckets[i]
		note(b.HoldClass, b.HoldAfter)
		note(ratelimits.ClassSubLimit, b.SubLimitAfter)
		if b.Waiting > 0 {
			longest = max(longest, b.PredictedWait)
		}
	}
	for _, g := range s.Edges {
		note(ratelimits.ClassEdge, g.HoldAfter)
	}
	var busiest buckets.LimitSnapshot
	for _, g := range s.Globals {
		note(ratelimits.ClassGlobal, g.HoldAfter)
		if g.InUse > busiest.InUse {
			busiest = g
		}
	}
	for class := ratelimits.ClassUser; class < ratelimits.NumClasses; class++ {
		out <- prometheus.MustNewConstMetric(holdsDesc, prometheus.GaugeValue, float64(holds[class]), class.String())
		out <- prometheus.MustNewConstMetric(holdEndDesc, prometheus.GaugeValue, ends[class].Seconds(), class.String())
	}
	out <- prometheus.MustNewConstMetric(predictedDesc, prometheus.GaugeValue, longest.Seconds())
	out <- prometheus.MustNewConstMetric(inUseDesc, prometheus.GaugeValue, float64(busiest.InUse))
	out <- prometheus.MustNewConstMetric(limitDesc, prometheus.GaugeValue, float64(busiest.Part))
}

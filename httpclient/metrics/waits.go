package metrics

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/buckets"
)

// reasons lists everything that requests can wait for.
var reasons = []buckets.WaitsFor{
	buckets.WaitsForWindow, buckets.WaitsForSubLimit, buckets.WaitsForShared, buckets.WaitsForDeclared,
	buckets.WaitsForGlobal, buckets.WaitsForEdge, buckets.WaitsForProbe, buckets.WaitsForOrdered,
	buckets.WaitsForOutage,
}

// waits measures how long requests wait in queues, by what they wait for. Requests that do not wait are not observed
// one by one. Instead, collect computes the number of such requests from two counters of the manager, and exports a
// histogram in which all of them have the value 0.
type waits struct {
	durations *prometheus.HistogramVec
	none      *prometheus.Desc // describes the histogram of requests that did not wait

	mu     sync.Mutex
	atOnce uint64 // number of requests that did not wait, as last exported
}

var waitBounds = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

const (
	waitName = "ratelight_queue_wait_seconds"
	waitHelp = "Time that requests have waited in queues, with any outcome, by what they waited for."
)

func newWaits() *waits {
	options := prometheus.HistogramOpts{Name: waitName, Help: waitHelp, Buckets: waitBounds}
	return &waits{
		durations: prometheus.NewHistogramVec(options, []string{"reason"}),
		none:      prometheus.NewDesc(waitName, waitHelp, []string{"reason"}, nil),
	}
}

func (w *waits) observe(_ context.Context, e buckets.Waited) {
	if slices.Contains(reasons, e.For) {
		w.durations.WithLabelValues(string(e.For)).Observe(e.Wait.Seconds())
	}
}

func (w *waits) collect(out chan<- prometheus.Metric, s *buckets.Stats) {
	w.durations.Collect(out)
	w.mu.Lock()
	// The manager's counters are read one after the other, so s.Waited may include requests that s.Granted lacks.
	// Therefore the difference between the two could decrease, which a counter of Prometheus must not do.
	w.atOnce = max(w.atOnce, s.Granted-min(s.Waited, s.Granted))
	n := w.atOnce
	w.mu.Unlock()
	if n == 0 {
		return
	}
	bounds := make(map[float64]uint64, len(waitBounds))
	for _, bound := range waitBounds {
		bounds[bound] = n
	}
	out <- prometheus.MustNewConstHistogram(w.none, n, 0, bounds, "none")
}

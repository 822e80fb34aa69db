package metrics

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/httpclient"
)

// Collector is a prometheus.Collector. Get one from New. It is safe for concurrent use.
type Collector struct {
	manager *buckets.RESTBucketManager // nil if the transports use another limiter

	attempts attempts
	waits    *waits
	overhead prometheus.Histogram
	retries  *prometheus.CounterVec
	retried  map[httpclient.RetryReason]prometheus.Counter
	refused  [len(refusals)]atomic.Uint64 // requests that were not sent, by reason, without those that the manager counts
}

// New returns a collector of metrics of the manager and the transports. Pass a nil manager for transports that use
// another limiter. In that case the metrics that only a manager provides are missing. New adds hooks to the manager and
// the transports. Hooks cannot be removed, so make only one collector for each manager. Nil transports are ignored.
func New(manager *buckets.RESTBucketManager, transports ...*httpclient.Transport) *Collector {
	c := &Collector{
		manager:  manager,
		attempts: attempts{durations: newHistogram()},
		waits:    newWaits(),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "ratelight_overhead_seconds",
			Help:    "Time of a request in the transport without its waits and its time in flight.",
			Buckets: []float64{5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, .01, .025, .05, .1},
		}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ratelight_retries_total", Help: "Attempts after the first one, by the outcome of the previous attempt.",
		}, []string{"reason"}),
		retried: make(map[httpclient.RetryReason]prometheus.Counter),
	}
	for _, reason := range []httpclient.RetryReason{
		httpclient.RetryRateLimited, httpclient.RetryServerError, httpclient.RetryTimeout, httpclient.RetryConnection,
	} {
		c.retried[reason] = c.retries.WithLabelValues(string(reason))
	}
	if manager != nil {
		manager.AddHooks(buckets.Hooks{Waited: c.waits.observe})
	}
	for _, t := range transports {
		if t != nil {
			t.AddHooks(httpclient.Hooks{Response: c.attempted, Done: c.done})
		}
	}
	return c
}

func (c *Collector) attempted(_ context.Context, e httpclient.ResponseEvent) {
	c.attempts.observe(&e)
	if e.Retry != httpclient.RetryNone {
		c.retried[e.Retry].Inc()
	}
}

func (c *Collector) done(_ context.Context, e httpclient.DoneEvent) {
	c.overhead.Observe(inSeconds(e.Overhead()))
	if e.Err == nil {
		return
	}
	if reason := refusalOf(&e); reason >= countedByManager || reason >= 0 && c.manager == nil {
		c.refused[reason].Add(1)
	}
}

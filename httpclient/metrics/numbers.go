package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

// number is a metric without labels. Its value is one of the manager's statistics.
type number struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*buckets.Stats) float64
}

func gauge(name, help string, of func(*buckets.Stats) float64) number {
	return number{describe(name, help), prometheus.GaugeValue, of}
}

func counter(name, help string, of func(*buckets.Stats) float64) number {
	return number{describe(name, help), prometheus.CounterValue, of}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelight_"+name, help, labels, nil)
}

type stats = buckets.Stats

// numbers has the metrics of all managers, and sharedNumbers those of managers that share limits with other processes.
var (
	numbers = []number{
		gauge("requests_waiting", "Requests in queues.", func(s *stats) float64 { return float64(s.Waiting) }),
		gauge("requests_in_flight", "Requests whose outcome is not known yet.",
			func(s *stats) float64 { return float64(s.InFlight) }),
		gauge("buckets", "Buckets that are known.", func(s *stats) float64 { return float64(s.Buckets) }),
		gauge("routes", "Routes that are known, of each credential.", func(s *stats) float64 { return float64(s.Routes) }),
		gauge("credentials", "Credentials that are known.", func(s *stats) float64 { return float64(s.Authentications) }),
		gauge("invalid_responses", "Responses of the latest period that count against the limit of invalid requests.",
			func(s *stats) float64 { return float64(s.Invalid) }),
		gauge("invalid_responses_limit", "How many of them there may be before requests are refused, 0 if there is no bound.",
			func(s *stats) float64 { return float64(s.InvalidLimit) }),
		counter("requests_granted_total", "Requests that were allowed to be sent.",
			func(s *stats) float64 { return float64(s.Granted) }),
		counter("requests_lost_total", "Requests whose outcome never became known.",
			func(s *stats) float64 { return float64(s.Lost) }),
		counter("buckets_evicted_total", "Buckets that the garbage collector has removed.",
			func(s *stats) float64 { return float64(s.Evicted) }),
	}
	sharedNumbers = []number{
		gauge("shared_loans", "Buckets that are lent to this process.",
			func(s *stats) float64 { return float64(s.Shared.Loans) }),
		counter("shared_loans_taken_total", "Buckets that were lent to this process.",
			func(s *stats) float64 { return float64(s.Shared.LoansTaken) }),
		counter("shared_loans_returned_total", "Loans that were given back in time.",
			func(s *stats) float64 { return float64(s.Shared.LoansReturned) }),
		counter("shared_loans_expired_total", "Loans that were lost.",
			func(s *stats) float64 { return float64(s.Shared.LoansExpired) }),
		counter("shared_loans_recalled_total", "Loans that another process has asked for.",
			func(s *stats) float64 { return float64(s.Shared.LoansRecalled) }),
		counter("shared_losses_total", "Times that the server had lost what it knew.",
			func(s *stats) float64 { return float64(s.Shared.Losses) }),
		counter("shared_clock_steps_total", "Times that the server's clock was set.",
			func(s *stats) float64 { return float64(s.Shared.ClockSteps) }),
		counter("shared_suspensions_total", "Times that this process was suspended.",
			func(s *stats) float64 { return float64(s.Shared.Suspensions) }),
		gauge("shared_outage_age_seconds", "For how long the server has been away, 0 if it is not.",
			func(s *stats) float64 { return s.Shared.Outage.Seconds() }),
		counter("shared_outages_total", "Times that the server was away.",
			func(s *stats) float64 { return float64(s.Shared.Outages) }),
		counter("shared_outage_seconds_total", "Time for which the server was away.",
			func(s *stats) float64 { return s.Shared.OutageTime.Seconds() }),
		gauge("shared_quota", "Requests a second that this process may send, as its part of the global limit.",
			func(s *stats) float64 { return float64(s.Shared.Quota) }),
		gauge("shared_quota_need", "Requests a second that it would send if it had all of the global limit.",
			func(s *stats) float64 { return float64(s.Shared.QuotaNeed) }),
	}
)

// These metrics have labels.
var (
	responsesDesc = describe("responses_total",
		"Responses by class: ok, or the limit that refused.", "class")
	refusalsDesc = describe("refusals_total",
		"Requests that were not sent, by reason.", "reason")
	declaredDesc = describe("declared_limit_waiting",
		"Requests that wait for a limit of buckets.WithLimit, by its name.", "limit")
	callsDesc = describe("shared_calls_total",
		"Calls to the server that have ended, by purpose.", "purpose")
	callErrorsDesc = describe("shared_call_errors_total",
		"Calls to the server that have failed, by purpose.", "purpose")
	callTimeDesc = describe("shared_call_duration_seconds_total",
		"Time that calls to the server have taken, by purpose.", "purpose")
)

// purposes names the purposes of the calls that shared.Stats.Calls counts.
var purposes = []string{"swap", "beat", "part", "discover", "invalid"}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	c.attempts.durations.Describe(out)
	c.waits.durations.Describe(out)
	c.overhead.Describe(out)
	c.retries.Describe(out)
	for _, list := range [][]number{numbers, sharedNumbers} {
		for _, n := range list {
			out <- n.desc
		}
	}
	for _, desc := range []*prometheus.Desc{
		responsesDesc, refusalsDesc, declaredDesc, callsDesc, callErrorsDesc, callTimeDesc,
		holdsDesc, holdEndDesc, predictedDesc, inUseDesc, limitDesc,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. It visits only buckets that are held or in which requests wait, at most a
// few thousand of them; see buckets.RESTBucketManager.Status.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.attempts.durations.Collect(out)
	c.overhead.Collect(out)
	c.retries.Collect(out)
	var counted [byTransports]uint64
	if c.manager != nil {
		s := c.manager.Status(mostHeld)
		counted = refusalsOf(&s.Stats)
		c.collectManager(out, &s.Stats)
		collectBusy(out, &s)
	}
	for i, reason := range refusals {
		n := c.refused[i].Load()
		if i < len(counted) {
			n += counted[i]
		}
		out <- count(refusalsDesc, n, reason)
	}
}

func (c *Collector) collectManager(out chan<- prometheus.Metric, s *stats) {
	c.waits.collect(out, s)
	for _, n := range numbers {
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, n.of(s))
	}
	for class := range ratelimits.Class(ratelimits.NumClasses) {
		out <- count(responsesDesc, s.Responses[class], class.String())
	}
	for name, n := range s.Declared {
		out <- prometheus.MustNewConstMetric(declaredDesc, prometheus.GaugeValue, float64(n), strings.ToValidUTF8(name, "?"))
	}
	if !c.manager.Shares() {
		return
	}
	for _, n := range sharedNumbers {
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, n.of(s))
	}
	for _, purpose := range purposes {
		calls := s.Shared.Calls[purpose]
		out <- count(callsDesc, calls.Calls, purpose)
		out <- count(callErrorsDesc, calls.Errors, purpose)
		out <- prometheus.MustNewConstMetric(callTimeDesc, prometheus.CounterValue, calls.Time.Seconds(), purpose)
	}
}

func count(desc *prometheus.Desc, n uint64, label string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), label)
}

var _ prometheus.Collector = (*Collector)(nil)

package metrics

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// number is a metric without labels: a field of buckets.Stats or shared.Stats.
type number struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	field int
}

// Every manager has the metrics in numbers. A manager that shares limits with other processes also has those in
// sharedNumbers.
var (
	numbers       = numbersOf(reflect.TypeFor[buckets.Stats](), "")
	sharedNumbers = numbersOf(reflect.TypeFor[shared.Stats](), "shared_")
)

// numbersOf returns a metric for each field of a struct that has the tag metric.
func numbersOf(statistics reflect.Type, prefix string) (list []number) {
	for i := range statistics.NumField() {
		tag := statistics.Field(i).Tag
		if name := tag.Get("metric"); name != "" {
			n := number{describe(prefix+name, tag.Get("help")), prometheus.GaugeValue, i}
			if strings.HasSuffix(name, "_total") {
				n.kind = prometheus.CounterValue
			}
			list = append(list, n)
		}
	}
	return list
}

// collect exports the listed fields of a struct of statistics. Durations are exported in seconds.
func collect(out chan<- prometheus.Metric, list []number, statistics any) {
	s := reflect.ValueOf(statistics).Elem()
	for _, n := range list {
		var value float64
		switch v := s.Field(n.field).Interface().(type) {
		case int:
			value = float64(v)
		case uint64:
			value = float64(v)
		case time.Duration:
			value = v.Seconds()
		default:
			panic(fmt.Sprintf("metrics: a statistic is a %T", v)) // a test tries all fields
		}
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, value)
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ratelight_"+name, help, labels, nil)
}

// These metrics have labels.
var (
	responsesDesc = describe("responses_total",
		"Responses by class: ok, or the kind of limit that refused the request.", "class")
	refusalsDesc = describe("refusals_total",
		"Requests that were not sent, by reason.", "reason")
	declaredDesc = describe("declared_limit_waiting",
		"Requests that wait for a limit of buckets.WithLimit, by its name.", "limit")
	callsDesc = describe("shared_calls_total",
		"Finished calls to the server of shared limits, by purpose.", "purpose")
	callErrorsDesc = describe("shared_call_errors_total",
		"Failed calls to the server of shared limits, by purpose.", "purpose")
	callTimeDesc = describe("shared_call_duration_seconds_total",
		"Time of all calls to the server of shared limits, by purpose.", "purpose")
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

// Collect implements prometheus.Collector. It examines only buckets that are held or in which requests wait, and at
// most a few thousand of them (see buckets.RESTBucketManager.Status).
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	c.attempts.durations.Collect(out)
	c.overhead.Collect(out)
	c.retries.Collect(out)
	var counted [countedByManager]uint64
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

func (c *Collector) collectManager(out chan<- prometheus.Metric, s *buckets.Stats) {
	c.waits.collect(out, s)
	collect(out, numbers, s)
	for class := range ratelimits.Class(ratelimits.NumClasses) {
		out <- count(responsesDesc, s.Responses[class], class.String())
	}
	for name, n := range s.Declared {
		out <- prometheus.MustNewConstMetric(declaredDesc, prometheus.GaugeValue, float64(n), strings.ToValidUTF8(name, "?"))
	}
	if !c.manager.Shares() {
		return
	}
	collect(out, sharedNumbers, &s.Shared)
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

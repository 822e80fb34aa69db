package metrics

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/buckets/shared"
)

// Each field of the statistics must have a JSON name, and a metric if it is a number.
func TestEveryStatisticHasAMetricAndAJSONName(t *testing.T) {
	t.Parallel()
	elsewhere := []string{
		"Waited", "WaitTime", // in ratelight_queue_wait_seconds
		"TooLong", "QueueFull", "OverBudget", "Superseded", "Cancelled", // in ratelight_refusals_total
	}
	for _, test := range []struct {
		statistics any
		numbers    []number
	}{{&buckets.Stats{}, numbers}, {&shared.Stats{}, sharedNumbers}} {
		statistics := reflect.ValueOf(test.statistics).Elem()
		for i := range statistics.NumField() {
			v, field := statistics.Field(i), statistics.Type().Field(i)
			assert.NotEmpty(t, field.Tag.Get("json"), field.Name)
			switch v.Kind() {
			case reflect.Int, reflect.Int64:
				v.SetInt(7)
			case reflect.Uint64:
				v.SetUint(7)
			default:
				continue
			}
			if v.Type() == reflect.TypeFor[time.Duration]() {
				v.SetInt(int64(7 * time.Second))
			}
			at := slices.IndexFunc(test.numbers, func(n number) bool { return n.field == i })
			if slices.Contains(elsewhere, field.Name) {
				assert.Negative(t, at, field.Name)
				continue
			}
			require.GreaterOrEqual(t, at, 0, "%s has no metric", field.Name)
			assert.NotEmpty(t, field.Tag.Get("help"), field.Name)
			one := collectorFunc(func(out chan<- prometheus.Metric) { collect(out, test.numbers[at:at+1], test.statistics) })
			assert.InDelta(t, 7, testutil.ToFloat64(one), 0, field.Name)
		}
	}
}

type collectorFunc func(chan<- prometheus.Metric)

func (f collectorFunc) Describe(chan<- *prometheus.Desc)         {}
func (f collectorFunc) Collect(metrics chan<- prometheus.Metric) { f(metrics) }

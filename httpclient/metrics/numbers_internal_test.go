package metrics

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each field of the statistics must have a JSON name, and a metric if it is a number.
func TestEveryStatisticHasAMetricAndAJSONName(t *testing.T) {
	t.Parallel()
	// Waited and WaitTime are in ratelight_queue_wait_seconds; OutageClass is a text without a metric.
	elsewhere := []string{"Waited", "WaitTime", "OutageClass"}
	var s stats
	all := append(slices.Clone(numbers), sharedNumbers...)
	shown := func() (text string, values []float64) {
		encoded, err := json.Marshal(s)
		require.NoError(t, err)
		for _, n := range all {
			values = append(values, n.of(&s))
		}
		for _, n := range refusalsOf(&s) {
			values = append(values, float64(n))
		}
		return string(encoded), values
	}
	noText, noValues := shown()
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		for i := range v.NumField() {
			field, name := v.Field(i), v.Type().Field(i).Name
			switch field.Kind() {
			case reflect.Struct:
				visit(field)
				continue
			case reflect.Int, reflect.Int64:
				field.SetInt(int64(time.Second))
			case reflect.Uint64:
				field.SetUint(1)
			case reflect.String:
				field.SetString("text")
			case reflect.Map, reflect.Array:
				continue // metrics with labels, which other tests cover
			default:
				t.Fatalf("%s is a %s, which this test does not know", name, field.Kind())
			}
			text, values := shown()
			assert.NotEqual(t, noText, text, "%s has no name in JSON", name)
			if !slices.Contains(elsewhere, name) {
				assert.NotEqual(t, noValues, values, "%s has no metric", name)
			}
			field.SetZero()
		}
	}
	visit(reflect.ValueOf(&s).Elem())
}

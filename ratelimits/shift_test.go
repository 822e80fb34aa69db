package ratelimits

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Shift must move each lower bound by early, and every other instant by late. It must not change anything else.
func TestShiftMovesInstantsAndNothingElse(t *testing.T) {
	t.Parallel()
	const early, late = -3 * time.Hour, -2 * time.Hour
	w := everything()
	var before []int64
	each := func(f func(name string, v reflect.Value)) {
		p := plain(&w)
		leaves(reflect.ValueOf(p), "w", func(name string, v reflect.Value) {
			if v.Type() == reflect.TypeFor[time.Duration]() && !notInLists.MatchString(name) {
				f(name, v)
			}
		})
	}
	each(func(_ string, v reflect.Value) { before = append(before, v.Int()) })
	w.Shift(early, late)
	each(func(name string, v reflect.Value) {
		by := late
		switch {
		case time.Duration(before[0]).Abs() < time.Hour: // a span
			by = 0
		case strings.HasSuffix(name, ".low"):
			by = early
		}
		assert.Equal(t, by, time.Duration(v.Int()-before[0]), name)
		before = before[1:]
	})
	assert.Empty(t, before)
	assert.EqualValues(t, math.MaxUint16, w.ledger.list()[0].trip, "the trip grows by late - early, which is an hour")
}

func TestWhatIsNotIsNotOnAnotherClockEither(t *testing.T) {
	t.Parallel()
	var w Window
	w.Shift(time.Hour, 2*time.Hour)
	assert.Equal(t, Window{}, w)
	w.Hold(5*time.Hour, time.Hour)
	w.Shift(-7*time.Hour, -6*time.Hour)
	assert.NotZero(t, w.Reset(), "a hold that ends at the new clock's origin remains a hold")
}

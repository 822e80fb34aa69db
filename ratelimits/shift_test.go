package ratelimits

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// origin is how long before a play the origin of its clock lies, as that of a server's.
const origin = 20_000 * 24 * time.Hour

// mirrored is a window with another one beside it that moves from clock to clock, at distances that are known exactly,
// and is written and read.
type mirrored struct {
	Window
	t       *rapid.T
	other   Window
	ahead   time.Duration
	permits map[Permit]Permit // of the other one
}

// move moves the other one, and returns its time.
func (m *mirrored) move(now time.Duration) time.Duration {
	if by := time.Duration(rapid.IntRange(-1, 2).Draw(m.t, "move")) * 1234567891; by != 0 {
		m.ahead += by
		m.other.Shift(by, by)
		for p, o := range m.permits {
			m.permits[p] = o.Shift(by, by)
		}
	}
	data := m.other.Append(nil)
	w, _, err := DecodeWindow(data)
	require.NoError(m.t, err)
	require.Equal(m.t, plain(&m.other), plain(&w))
	require.Equal(m.t, data, w.Append(nil))
	m.other = w
	return now + m.ahead
}

func (m *mirrored) Take(now time.Duration) (Permit, bool) {
	now += origin
	p, ok := m.Window.Take(now)
	o, same := m.other.Take(m.move(now))
	require.Equal(m.t, ok, same)
	if ok {
		m.permits[p] = o
	}
	return p, ok
}

func (m *mirrored) Next(now time.Duration) (time.Duration, bool) {
	now += origin
	at, ok := m.Window.Next(now)
	other, same := m.other.Next(m.move(now))
	require.Equal(m.t, ok, same)
	if ok {
		require.Equal(m.t, at, other-m.ahead)
	}
	return at - origin, ok
}

func (m *mirrored) Return(now time.Duration, p Permit) {
	now += origin
	m.Window.Return(now, p)
	m.other.Return(m.move(now), m.permits[p])
}

func (m *mirrored) Report(now time.Duration, p Permit, r Response) {
	now += origin
	m.Window.Report(now, p, r)
	m.other.Report(m.move(now), m.permits[p], r)
	if m.rare != nil && m.rare.refusals.row > freeRefusals { // from then on holds depend on the time in a random way
		m.t.Skip()
	}
}

func (m *mirrored) Lost(now time.Duration, p Permit) {
	now += origin
	m.Window.Lost(now, p)
	m.other.Lost(m.move(now), m.permits[p])
}

// A window goes on in the same way whatever clock it is on, and whether or not it is written and read in between.
func TestWindowOnAnotherClockDoesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		play(t, &mirrored{t: t, permits: map[Permit]Permit{}})
	})
}

// Each lower bound moves by the one, every other instant by the other, and nothing else moves.
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
	assert.EqualValues(t, math.MaxUint16, w.ledger.list()[0].trip, "the first may have been sent an hour before")
}

func TestWhatIsNotIsNotOnAnotherClockEither(t *testing.T) {
	t.Parallel()
	var w Window
	w.Shift(time.Hour, 2*time.Hour)
	assert.Equal(t, Window{}, w)
	w.Hold(5*time.Hour, time.Hour)
	w.Shift(-7*time.Hour, -6*time.Hour)
	assert.NotZero(t, w.Reset(), "a hold that ends at the origin is one still")
}

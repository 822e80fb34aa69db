package ratelimits

import (
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everything returns a window in which no field is zero. The origin of its clock is 50 years in the past.
func everything() Window {
	const origin = 50 * 365 * 24 * time.Hour
	at := origin
	next := func() time.Duration { at += 1234567 * time.Nanosecond; return at }
	span := func() time.Duration { return next() - origin }
	list := func(n int32) (l ledger) {
		for range n {
			l.add(&charge{next(), interval{next(), next()}, n + 2, n, n + 5, true, withoutLimits, uint16(n) + 700})
		}
		return l
	}
	w := Window{
		limit: 11, inflight: 12, uncounted: 13, passed: 14, returned: 19,
		answered: math.MaxUint32, countedAt: math.MaxUint32 - 5, expired: 17,
		origin: unlimited, recentWhole: true, probing: probesAlone, probeOut: true,
		punctual: true, opening: tried, openedWithin: 18,
		longest: span(), recent: span(), recentSince: next(), outcome: next(), opened: next(), uncountedAt: next(),
		ledger: list(3),
		evidence: evidence{
			refuted: log | leaky, others: true, suspected: true, seen: 200, leftOut: 2,
			reset: interval{next(), next()}, at: next(),
			fixed: fixedEvidence{closes: interval{next(), next()}, least: span(), leastSpent: 21, count: 22, until: next()},
			leaky: leakyEvidence{interval{-span(), span()}}, next: nextEvidence{span()},
		},
		rare: &rare{
			hold: Throttle{next()}, holdClass: ClassShared, full: next(), refusals: Refusals{3, next()}, suspected: next(),
			leftOutUntil: next(), raised: 31, raisedTwice: true, loweredAt: next(), raisedAt: next(),
			hidden:   hiddenLimit{room: 32, vain: 4, span: span(), passed: list(1), tryAt: next(), met: next(), until: next()},
			rounding: span(), unawaited: 2,
			openBy: next(),
			late: lateness{
				by: span(), shown: measurement{span(), span()}, trip: span(), trips: 7,
				tryAt: next(), shownAt: next(), sureAt: next(), vain: 5, punctual: 2,
			},
		},
	}
	return w
}

// plain returns a copy of a window in which lists with the same content are equal.
func plain(w *Window) Window {
	p := *w
	p.ledger = p.ledger.plain()
	if w.rare != nil {
		r := *w.rare
		r.hidden.passed = r.hidden.passed.plain()
		p.rare = &r
	}
	return p
}

// notInLists matches the names of fields that a plain ledger does not use.
var notInLists = regexp.MustCompile(`\.(ledger|passed)\.(first|many\.gone)\b`)

func (l *ledger) plain() ledger {
	return ledger{many: &manyCharges{all: append([]charge{}, l.list()...)}, total: l.total, unsure: l.unsure}
}

// leaves calls f for each number and flag in a value, and in all values that it contains or points to.
func leaves(v reflect.Value, name string, f func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), name+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			leaves(v.Index(i), name, f)
		}
	case reflect.Pointer:
		leaves(v.Elem(), name, f)
	default:
		f(name, v)
	}
}

// The test fails if the function everything, or Append, omits a field.
func TestEveryFieldOfAWindowTravels(t *testing.T) {
	t.Parallel()
	w := everything()
	want := plain(&w)
	leaves(reflect.ValueOf(want), "w", func(name string, v reflect.Value) {
		if !notInLists.MatchString(name) {
			assert.False(t, v.IsZero(), "%s is zero in everything()", name)
		}
	})
	data := w.Append([]byte("before"))
	got, rest, err := DecodeWindow(append(data[len("before"):len(data):len(data)], "after"...))
	require.NoError(t, err)
	assert.Equal(t, "after", string(rest))
	assert.Equal(t, want, plain(&got))
	assert.Equal(t, data[len("before"):], got.Append(nil))
	t.Logf("%d bytes", len(data))
}

func TestWindowKeepsItsSize(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, unsafe.Sizeof(Window{}), uintptr(248), "every bucket has one")
}

func TestZeroWindowAndPermitAreFewBytes(t *testing.T) {
	t.Parallel()
	var w Window
	data := w.Append(nil)
	assert.LessOrEqual(t, len(data), 12)
	got, rest, err := DecodeWindow(data)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, Window{}, got)

	permit, rest, err := DecodePermit(Permit{}.Append(nil))
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, Permit{}, permit)
}

// A window that uses the server's clock (nanoseconds since 1970) must be short when it is written.
func TestWindowIsSmallOnTheServer(t *testing.T) {
	t.Parallel()
	var w Window
	now := time.Duration(1_763_866_800_123_456_789)
	for i := range 5 {
		for j := range 3 {
			p, ok := w.Take(now)
			require.True(t, ok)
			now += 23_456_789
			w.Report(now, p, says(5, 4-j, 5*second-time.Duration(j)*30*ms))
		}
		if i < 4 {
			now += 6 * time.Second
		}
	}
	assert.Equal(t, KindFixed, w.Kind())
	data := w.Append(nil)
	t.Logf("%d bytes", len(data))
	assert.Less(t, len(data), 120)
	got, _, err := DecodeWindow(data)
	require.NoError(t, err)
	assert.Equal(t, plain(&w), plain(&got))
}

func TestEveryFieldOfAPermitTravels(t *testing.T) {
	t.Parallel()
	p := Permit{
		sent: 50*365*24*time.Hour + 1, opened: 50*365*24*time.Hour - 1, answered: math.MaxUint32, expired: 3,
		probe: true, adopted: true, elsewhere: true, unawaited: true,
	}
	leaves(reflect.ValueOf(p), "p", func(name string, v reflect.Value) { assert.False(t, v.IsZero(), name) })
	data := p.Append(nil)
	got, rest, err := DecodePermit(append(data, 1, 2))
	require.NoError(t, err)
	assert.Equal(t, []byte{1, 2}, rest)
	assert.Equal(t, p, got)
	for n := range data {
		_, _, err := DecodePermit(data[:n])
		require.ErrorIs(t, err, ErrFormat)
	}
}

func TestDamagedWindowIsAnError(t *testing.T) {
	t.Parallel()
	w := everything()
	data := w.Append(nil)
	for n := range data {
		_, _, err := DecodeWindow(data[:n])
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
	for name, change := range map[string]func(*Window){
		"more certain than charged":       func(w *Window) { w.ledger.list()[0].sure = 100 },
		"not in order":                    func(w *Window) { w.ledger.list()[0].reset.high += time.Hour },
		"an empty charge":                 func(w *Window) { w.ledger.list()[0].n = 0 },
		"a suspicion that never ends":     func(w *Window) { w.rare = nil },
		"a probe that is not in flight":   func(w *Window) { w.inflight = 0 },
		"open before the announced reset": func(w *Window) { w.rare.late.by = -time.Hour },
	} {
		w := everything()
		change(&w)
		_, _, err := DecodeWindow(w.Append(nil))
		assert.ErrorIs(t, err, ErrFormat, name)
	}
	more := new(Window).Append(nil) // changed below: its last group claims more values than a window has
	more[len(more)-1] |= 1 << 7     // the last group has fewer than eight values
	_, _, err := DecodeWindow(append(more, 1))
	assert.ErrorIs(t, err, ErrFormat)
	_, _, err = DecodeWindow(Permit{}.Append(nil))
	assert.ErrorIs(t, err, ErrFormat)
	_, _, err = DecodePermit(data)
	assert.ErrorIs(t, err, ErrFormat)
}

// If the data claim that a list is long, no memory may be allocated before the elements are read.
func TestLongListIsNotBelieved(t *testing.T) {
	t.Parallel()
	e := newWriter(nil, windowFormat, 0)
	for range 20 { // the values before the ledger
		e.value(0)
	}
	e.value(1 << 40)
	_, _, err := DecodeWindow(append(e.b, make([]byte, 1000)...))
	assert.ErrorIs(t, err, ErrFormat)
	assert.ErrorContains(t, err, "longer than the data")
}

func TestPermitIsSentLaterButNotEarlier(t *testing.T) {
	t.Parallel()
	var w Window
	p, _ := w.Take(time.Second)
	assert.Equal(t, 2*time.Second, p.SentAt(2*time.Second).Sent())
	assert.Equal(t, p, p.SentAt(time.Millisecond))
}

// If another process has written a window, the window must not wait for more than a day, even if its lateness is more
// than a day.
func TestResumedLatenessHoldsNothingForLongerThanADay(t *testing.T) {
	t.Parallel()
	var w Window
	now := 100 * 24 * time.Hour
	w.Report(now, takeAt(t, &w, now), says(1, 0, second))
	w.writeRare().late = lateness{by: 47 * time.Hour, shown: measurement{least: 47 * time.Hour}, tryAt: now + 47*time.Hour}
	w, _, err := DecodeWindow(w.Append(nil))
	require.NoError(t, err)
	w.Resume(now, true)
	at, ok := w.Next(now)
	require.True(t, ok)
	assert.LessOrEqual(t, at-now, LongestTrust)
}

// FuzzDecodeWindow looks for data that are decoded to an unusable window, or to a window that changes when it is
// written and read again.
func FuzzDecodeWindow(f *testing.F) {
	full, zero := everything(), Window{}
	f.Add(full.Append(nil))
	f.Add(zero.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, rest, err := DecodeWindow(data)
		if err != nil {
			require.ErrorIs(t, err, ErrFormat)
			return
		}
		require.LessOrEqual(t, len(rest), len(data))
		written := w.Append(nil)
		again, _, err := DecodeWindow(written)
		require.NoError(t, err)
		require.Equal(t, written, again.Append(nil))
		at := w.Reset()
		for i := range 20 {
			now := at + time.Duration(i)*time.Hour
			w.Predict(now, i)
			w.WaitClass(now)
			p, ok := w.Take(now)
			if !ok {
				continue
			}
			switch i % 4 {
			case 0:
				w.Report(now, p, Response{Status: 200, Limited: true, Limit: 5, Remaining: 3, ResetAfter: time.Second})
			case 1:
				w.Report(now, p, Response{Status: 429, Class: ClassUser, HasRetryAfter: true})
			case 2:
				w.Report(now, p, Response{Status: 429, Class: ClassShared, HasRetryAfter: true})
			case 3:
				w.Lost(now, p)
			}
		}
		w.Shift(-time.Hour, time.Hour)
		w.Append(nil)
	})
}

func BenchmarkWindowTravels(b *testing.B) {
	var w Window
	now := 20_000 * 24 * time.Hour
	for i := range 3 {
		p, _ := w.Take(now)
		now += 20 * time.Millisecond
		w.Report(now, p, says(5, 4-i, 5*second-time.Duration(i)*20*ms))
	}
	data := w.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		w, _, _ = DecodeWindow(data)
		data = w.Append(data[:0])
	}
	b.ReportMetric(float64(len(data)), "bytes")
}

package ratelimits

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// twins are two windows that see the same. One of them rests whenever it can.
type twins struct {
	t       require.TestingT
	awake   Window
	resting Window
	shift   time.Duration // of the clock, which is seldom at 0
}

func (w *twins) at(now time.Duration) time.Duration { return now + w.shift }

func (w *twins) Take(now time.Duration) (Permit, bool) {
	w.nap(now)
	p, granted := w.awake.Take(w.at(now))
	q, too := w.resting.Take(w.at(now))
	require.Equal(w.t, granted, too, "does one leave?")
	require.Equal(w.t, p, q)
	w.nap(now)
	return p, granted
}

func (w *twins) Next(now time.Duration) (time.Duration, bool) {
	w.nap(now)
	at, ok := w.awake.Next(w.at(now))
	return at - w.shift, ok
}

func (w *twins) Return(now time.Duration, p Permit) {
	w.awake.Return(w.at(now), p)
	w.resting.Return(w.at(now), p)
	w.nap(now)
}

func (w *twins) Report(now time.Duration, p Permit, r Response) {
	w.awake.Report(w.at(now), p, r)
	w.resting.Report(w.at(now), p, r)
	w.nap(now)
}

func (w *twins) Lost(now time.Duration, p Permit) { w.Report(now, p, Response{}) }
func (w *twins) Limit() int                       { return w.awake.Limit() }
func (w *twins) Period() time.Duration            { return w.awake.Period() }
func (w *twins) InFlight() int                    { return w.awake.InFlight() }
func (w *twins) String() string                   { return w.awake.String() + "\nand " + w.resting.String() }

// nap lets one of them rest, if it can, and compares them.
func (w *twins) nap(now time.Duration) {
	now = w.at(now)
	w.compare(now)
	if rest, ok := w.resting.Rest(now); ok {
		require.Zero(w.t, w.resting.InFlight())
		before := w.resting
		w.resting = rest.Window()
		w.compare(now)
		if !reflect.DeepEqual(essence(before), essence(w.resting)) { // what it lacks might be seen much later
			require.Equal(w.t, essence(before), essence(w.resting))
		}
	}
}

// essence is a window without what does not matter.
func essence(w Window) Window {
	w.trouble = nil // it is over
	if w.blinds == 0 {
		w.blindAt = 0
	}
	if w.closing.least == 0 {
		w.closing.leastSpent = 0
	}
	if s := w.evidence.series; s != nil && len(s.earlier) == 0 {
		w.evidence.series = &series{s.slotLow, s.slotHigh, s.counts, nil}
	}
	if s := w.sliding; s != nil {
		w.sliding = &sliding{nil, s.period, s.full, s.slotLow, s.slotHigh}
	}
	return w
}

func (w *twins) compare(now time.Duration) {
	if look(&w.awake, now) != look(&w.resting, now) {
		require.Equal(w.t, look(&w.awake, now), look(&w.resting, now), "%v", w)
	}
}

// sight is all that a caller sees of a window.
type sight struct {
	limit, remaining, inflight            int
	next, period, reset, hold, soon, late time.Duration
	certain, unlimited, probing           bool
	kind                                  Kind
	class                                 Class
}

func look(w *Window, now time.Duration) sight {
	next, certain := w.Next(now)
	return sight{
		next: next, certain: certain, limit: w.Limit(), remaining: w.Remaining(now), inflight: w.InFlight(), period: w.Period(),
		reset: w.Reset(), hold: w.HoldWait(now), class: w.HoldClass(now), soon: w.Predict(now, 0), late: w.Predict(now, 7),
		unlimited: w.Unlimited(), probing: w.Probing(), kind: w.Kind(),
	}
}

func uptime(t *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int64{0, 1, int64(time.Minute), int64(26*time.Hour) + 123_456_789}).Draw(t, "uptime"))
}

func TestNoScheduleTellsARestedWindowFromOneThatWasAwake(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { play(t, &twins{t: t, shift: uptime(t)}).check() })
}

// Not only what a server answers.
func TestNothingTellsARestedWindowFromOneThatWasAwake(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &twins{t: t, shift: uptime(t)}
		now := time.Duration(0)
		var flying []Permit
		land := func() Permit {
			if len(flying) == 0 {
				t.Skip("nothing is in flight")
			}
			i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
			p := flying[i]
			flying = append(flying[:i], flying[i+1:]...)
			return p
		}
		moment := rapid.SampledFrom([]time.Duration{0, 1, ms, 40 * ms, 123_456_789, time.Second, 2 * time.Second, time.Minute, 24 * time.Hour})
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) { now += moment.Draw(t, "passes") },
			"take": func(t *rapid.T) {
				if p, granted := w.Take(now); granted {
					flying = append(flying, p)
				}
			},
			"wait": func(t *rapid.T) {
				if at, ok := w.Next(now); ok && at < now+time.Hour {
					now = at
				}
			},
			"report": func(t *rapid.T) { w.Report(now, land(), anyResponse(t)) },
			"return": func(t *rapid.T) { w.Return(now, land()) },
			"lost":   func(t *rapid.T) { w.Lost(now, land()) },
			"both": func(t *rapid.T) {
				d := moment.Draw(t, "for")
				switch rapid.IntRange(0, 20).Draw(t, "what") {
				case 0:
					w.awake.Hold(w.at(now), d)
					w.resting.Hold(w.at(now), d)
				case 1:
					w.awake.Unlimit()
					w.resting.Unlimit()
				case 2:
					w.awake.Recall(3, d)
					w.resting.Recall(3, d)
				case 3:
					sent := max(w.at(now)-d, 0)
					p := w.awake.Adopt(w.at(now), sent)
					assert.Equal(t, p, w.resting.Adopt(w.at(now), sent))
					flying = append(flying, p)
				case 4:
					w.awake.HoldFor(w.at(now), d, ClassShared)
					w.resting.HoldFor(w.at(now), d, ClassShared)
				}
			},
			"": func(*rapid.T) { w.nap(now) },
		})
	})
}

// anyResponse is mostly a success that speaks of a limit.
func anyResponse(t *rapid.T) Response {
	duration := rapid.SampledFrom([]time.Duration{0, ms, 20 * ms, 40 * ms, 960 * ms, time.Second, 5 * time.Second, time.Hour})
	r := Response{Status: 200}
	if rapid.IntRange(0, 9).Draw(t, "limited") > 0 {
		r.Limited, r.Limit = true, rapid.SampledFrom([]int{5, 5, 5, 5, 6, 20, 1000}).Draw(t, "limit")
		r.Remaining = rapid.IntRange(0, 5).Draw(t, "remaining")
		r.ResetAfter = duration.Draw(t, "reset")
	}
	if refused := rapid.IntRange(0, 19).Draw(t, "refused"); refused < 4 {
		r.Status, r.Class = 429, []Class{ClassUser, ClassShared, ClassSubLimit, ClassGlobal}[refused]
		r.HasRetryAfter, r.RetryAfter = true, duration.Draw(t, "retry")
	}
	return r
}

func TestRestIsSmall(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, unsafe.Sizeof(Rest{}), uintptr(64))
	assert.LessOrEqual(t, unsafe.Sizeof(Window{}), uintptr(208))
}

// meet lets a window send so many requests, one each 50 ms, and answers each of them 31.415926 ms later.
func meet(t *testing.T, w *Window, start time.Duration, requests int, answer func(i int) Response) (end time.Duration) {
	t.Helper()
	for i := range requests {
		sent := start + time.Duration(i)*50*ms
		p, granted := w.Take(sent)
		require.True(t, granted, "request %d", i)
		end = sent + 31_415_926
		w.Report(end, p, answer(i))
	}
	return end
}

func TestWindowsThatManyBucketsHaveCanRest(t *testing.T) {
	t.Parallel()
	limits := func(limit int, resets ...time.Duration) func(i int) Response {
		return func(i int) Response {
			return Response{Status: 200, Limited: true, Limit: limit, Remaining: limit - 1 - i, ResetAfter: resets[i%len(resets)]}
		}
	}
	fixed := limits(5, time.Minute, time.Minute-50*ms, time.Minute-100*ms, time.Minute-150*ms)
	log := limits(5, time.Minute)
	leaky := limits(50, time.Second, 2*time.Second-50*ms, 3*time.Second-100*ms)
	bare := func(int) Response { return Response{Status: 204} }
	const uptime = 100*24*time.Hour + 987_654_321
	for name, c := range map[string]struct {
		prepare  func(w *Window)
		requests int
		answer   func(i int) Response
		kind     Kind
		later    time.Duration
	}{
		"never used":                {},
		"recalled":                  {prepare: func(w *Window) { w.Recall(5, time.Minute) }},
		"unlimited":                 {prepare: func(w *Window) { w.Unlimit() }, requests: 4, answer: bare},
		"one request, open":         {requests: 1, answer: fixed},
		"one request, closed":       {requests: 1, answer: fixed, later: time.Hour},
		"without limits":            {requests: 1, answer: bare},
		"several, fixed":            {requests: 4, answer: fixed, kind: KindFixed},
		"several, fixed, closed":    {requests: 4, answer: fixed, kind: KindFixed, later: time.Hour},
		"several, unproven":         {requests: 3, answer: log},
		"several, unproven, closed": {requests: 3, answer: log, later: time.Hour},
		"log, closed":               {requests: 4, answer: log, kind: KindLog, later: time.Hour},
		"leaky":                     {requests: 3, answer: leaky, kind: KindLeaky},
		"leaky, full again":         {requests: 3, answer: leaky, kind: KindLeaky, later: time.Hour},
		"held an hour ago": {prepare: func(w *Window) { w.Hold(0, time.Second) },
			requests: 1, answer: fixed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w Window
			if c.prepare != nil {
				c.prepare(&w)
			}
			now := meet(t, &w, uptime, c.requests, c.answer) + c.later
			require.Equal(t, c.kind, w.Kind())
			rest, ok := w.Rest(now)
			require.True(t, ok, "%v", &w)
			woken := rest.Window()
			assert.Equal(t, look(&w, now), look(&woken, now))
		})
	}
}

func TestWindowThatWouldForgetSomethingDoesNotRest(t *testing.T) {
	t.Parallel()
	limited := Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Minute}
	refused := Response{Status: 429, Class: ClassUser, HasRetryAfter: true, RetryAfter: time.Second}
	shared := Response{Status: 429, Class: ClassShared, HasRetryAfter: true, RetryAfter: time.Second}
	for name, prepare := range map[string]func(w *Window){
		"in flight":               func(w *Window) { w.Take(0) },
		"in flight after another": func(w *Window) { meet(t, w, 0, 1, func(int) Response { return limited }); w.Take(time.Second) },
		"held":                    func(w *Window) { w.Hold(time.Second, time.Minute) },
		"refused":                 func(w *Window) { meet(t, w, 0, 1, func(int) Response { return refused }) },
		"shared":                  func(w *Window) { meet(t, w, 0, 1, func(int) Response { return shared }) },
		"raised": func(w *Window) {
			meet(t, w, 0, 2, func(i int) Response {
				r := limited
				r.Limit += i
				return r
			})
		},
		"log with requests to come back": func(w *Window) {
			meet(t, w, 0, 4, func(i int) Response {
				r := limited
				r.Remaining -= i
				return r
			})
			require.Equal(t, KindLog, w.Kind())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w Window
			prepare(&w)
			before := w
			_, ok := w.Rest(2 * time.Second)
			assert.False(t, ok)
			assert.Equal(t, before, w, "it is as it was")
		})
	}
}

// After enough calm, a 429 of long ago costs nothing any more.
func TestWindowRestsAgainWhenItsTroubleIsOver(t *testing.T) {
	t.Parallel()
	var w Window
	refused := Response{Status: 429, Class: ClassUser, HasRetryAfter: true, RetryAfter: time.Second}
	now := meet(t, &w, 0, 1, func(int) Response { return refused }) + time.Minute
	rested := 0
	for range 2 * contestedTurns {
		now = meet(t, &w, now, 1, func(int) Response {
			return Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Second}
		}) + time.Minute
		if _, ok := w.Rest(now); ok {
			rested++
		}
	}
	assert.GreaterOrEqual(t, rested, contestedTurns-1)
	assert.Less(t, rested, 2*contestedTurns)
}

func BenchmarkRest(b *testing.B) {
	var w Window
	p, _ := w.Take(0)
	w.Report(20*ms, p, Response{Status: 200, Limited: true, Limit: 5, Remaining: 4, ResetAfter: time.Second})
	rest, ok := w.Rest(20 * ms)
	require.True(b, ok)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			rest, _ = w.Rest(20 * ms)
		}
	})
	b.Run("wake", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w = rest.Window()
		}
	})
}

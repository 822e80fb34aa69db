package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// origin is the time that the server's clock shows when a test begins. The clock counts from 1970.
const origin = 20_000 * 24 * time.Hour

// fleet is a window that several senders share. It is stored as bytes: on the server, with times of the server's clock,
// or at a sender that has borrowed it, with times of that sender's clock. Each sender knows only roughly by how much
// its clock differs from the server's clock.
type fleet struct {
	t       *rapid.T
	stage   *Stage
	data    []byte
	holder  int      // index in senders of the one that has the window
	senders []sender // the first is the server
	held    map[Permit]*held
	blurred time.Duration // sum of the uncertainties of all conversions between clocks
	late    time.Duration // the part of blurred that is contained in the largest lateness that the window has assumed
}

// sender has a clock that is ahead of the server's clock. It knows only that the difference is between early and late.
type sender struct{ ahead, early, late time.Duration }

// held is a permit of a sender. Its times are those of the clock that the window uses.
type held struct {
	Permit
	sender *sender
}

func newFleet(t *rapid.T, senders int) *fleet {
	f := &fleet{t: t, senders: []sender{{}}, held: map[Permit]*held{}}
	for range senders {
		ahead := time.Duration(rapid.IntRange(-5000, 5000).Draw(t, "ahead")) * ms
		f.senders = append(f.senders, sender{ahead, ahead - f.roughly(), ahead + f.roughly()})
	}
	f.data = new(Window).Append(nil)
	return f
}

func (f *fleet) roughly() time.Duration {
	return time.Duration(rapid.IntRange(0, 2000).Draw(f.t, "µs unsure")) * time.Microsecond
}

// shared lets senders share the window of a stage. Some requests are sent later than their permit was taken, and some
// answers are reported later than they were received.
func (f *fleet) shared(s *Stage) {
	f.stage = s
	s.late = func() time.Duration { return f.delay("report") }
	draw := s.Draw
	s.Draw = func(g *Flight) {
		draw(g)
		if wait := f.delay("send"); wait > 0 && g.fate != unsent {
			g.There += wait
			h := f.held[g.permit]
			early := s.Now + wait + origin + h.sender.ahead
			h.Permit = h.SentAt(early - h.sender.late + f.senders[f.holder].early)
		}
	}
}

// delay draws a delay of at most 200 ms. Two of three delays are 0.
func (f *fleet) delay(of string) time.Duration {
	if rapid.IntRange(0, 2).Draw(f.t, of+" late") > 0 {
		return 0
	}
	return time.Duration(rapid.IntRange(0, 200_000).Draw(f.t, "by µs")) * time.Microsecond
}

// use reads the window, perhaps gives it to another holder, calls do with the time of the holder's clock, and writes
// the window.
func (f *fleet) use(do func(w *Window, now time.Duration)) {
	w, rest, err := DecodeWindow(f.data)
	require.NoError(f.t, err)
	require.Empty(f.t, rest)
	require.Equal(f.t, f.data, w.Append(nil))
	if to := rapid.IntRange(-2, len(f.senders)-1).Draw(f.t, "lend to"); to >= 0 {
		from := &f.senders[f.holder]
		f.shift(&w, -from.late, -from.early)
		f.holder = to
		f.shift(&w, f.senders[to].early, f.senders[to].late)
	}
	do(&w, f.stage.Now+origin+f.senders[f.holder].ahead)
	f.data = w.Append(nil)
	read, _, err := DecodeWindow(f.data)
	require.NoError(f.t, err)
	require.Equal(f.t, plain(&w), plain(&read))
}

func (f *fleet) shift(w *Window, early, late time.Duration) {
	w.Shift(early, late)
	f.blurred += late - early
	for _, h := range f.held {
		h.Permit = h.Shift(early, late)
	}
}

func (f *fleet) Take(now time.Duration) (p Permit, ok bool) {
	f.use(func(w *Window, at time.Duration) {
		h := &held{sender: &f.senders[rapid.IntRange(min(1, len(f.senders)-1), len(f.senders)-1).Draw(f.t, "sender")]}
		if h.Permit, ok = w.Take(at); ok {
			p = Permit{sent: now, answered: uint32(f.stage.sent + 1)}
			f.held[p] = h
		}
	})
	return p, ok
}

func (f *fleet) Next(now time.Duration) (at time.Duration, ok bool) {
	f.use(func(w *Window, time time.Duration) {
		if at, ok = w.Next(time); ok {
			at += now - time
		}
	})
	return at, ok
}

// land ends a permit. It calls report with the time of the answer. The sender's clock has measured this time, and land
// converts it to the holder's clock.
func (f *fleet) land(received time.Duration, p Permit, report func(w *Window, received time.Duration, p Permit)) {
	h := f.held[p]
	f.use(func(w *Window, now time.Duration) {
		holder, at := &f.senders[f.holder], received+origin+h.sender.ahead
		if holder != h.sender {
			at = min(at-h.sender.early+holder.late, now)
		}
		report(w, at, h.Permit)
		if by, _ := w.Late(); by > 0 {
			f.late = max(f.late, min(by, f.blurred))
		}
	})
	delete(f.held, p)
}

func (f *fleet) Return(now time.Duration, p Permit) {
	f.land(now, p, (*Window).Return)
}

func (f *fleet) Report(received time.Duration, p Permit, r Response) {
	f.land(received, p, func(w *Window, at time.Duration, p Permit) { w.Report(at, p, r) })
}

func (f *fleet) Lost(received time.Duration, p Permit) {
	f.land(received, p, (*Window).Lost)
}

func (f *fleet) window() *Window {
	w, _, _ := DecodeWindow(f.data)
	return &w
}

func (f *fleet) Limit() int            { return f.window().Limit() }
func (f *fleet) Period() time.Duration { return f.window().Period() }
func (f *fleet) InFlight() int         { return f.window().InFlight() }
func (f *fleet) String() string        { return f.window().String() }

// TestNoScheduleOfASharedWindowDrawsAnAvoidableRefusal is like TestNoScheduleDrawsAnAvoidableRefusal, but the window
// moves between a server and one or more processes, and reports come late and out of order.
func TestNoScheduleOfASharedWindowDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	for _, senders := range []int{1, 3} {
		rapid.Check(t, func(t *rapid.T) {
			f := newFleet(t, senders)
			play(t, f, f.shared).check()
		})
	}
}

// Each move to another clock may cost time, but at most as much as the uncertainty about the clocks. A 429 of a log
// that names its next place may look like lateness. This lateness includes the uncertainty so far, and costs that much
// time in each window.
func TestNoScheduleOfASharedWindowIsSlow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, 3)
		s, windows, perWindow := burst(t, f, func(s *Stage) { f.stage = s })
		require.True(t, f.late == 0 || s.quota.NamesNext, "no bucket is late")
		s.endsBy(time.Duration(windows)*(perWindow+f.late) + f.blurred)
	})
}

// mirrored is a window with a copy. The copy moves from clock to clock by known differences, and is written and read
// each time. Window and copy must behave in the same way.
type mirrored struct {
	Window
	t       *rapid.T
	other   Window
	ahead   time.Duration
	permits map[Permit]Permit // for each permit of the window, the permit of the copy
}

// move converts the copy to another clock, writes it and reads it. It returns the time of the copy's clock.
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
	if m.rare != nil && m.rare.refusals.row > freeRefusals { // further holds have a random part, which depends on the time
		m.t.Skip()
	}
}

func (m *mirrored) Lost(now time.Duration, p Permit) {
	now += origin
	m.Window.Lost(now, p)
	m.other.Lost(m.move(now), m.permits[p])
}

// A window must behave in the same way with every clock, even if it is written and read in between.
func TestWindowOnAnotherClockDoesTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		play(t, &mirrored{t: t, permits: map[Permit]Permit{}})
	})
}

// handed is a window that is replaced again and again by a new window with the same State, as if processes gave it to
// each other.
type handed struct {
	Window
	now func() bool
}

func (h *handed) Report(now time.Duration, p Permit, r Response) {
	h.Window.Report(now, p, r)
	h.hand(now)
}

func (h *handed) Lost(now time.Duration, p Permit) {
	h.Window.Lost(now, p)
	h.hand(now)
}

func (h *handed) hand(now time.Duration) {
	if h.InFlight() == 0 && h.now() {
		h.Window = NewWindow(now, h.State(now))
	}
}

// TestNoScheduleOfHandoversDrawsAnAvoidableRefusal is like TestNoScheduleDrawsAnAvoidableRefusal, but with a handed
// window. It leaves out logs that name their next place, because a State cannot say that a bucket is such a log.
func TestNoScheduleOfHandoversDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := play(t, &handed{now: func() bool { return rapid.IntRange(0, 3).Draw(t, "hand over") == 0 }})
		if !s.quota.NamesNext {
			s.check()
		}
	})
}

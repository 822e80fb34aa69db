package ratelimits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fleet is a window that several senders share. It is kept on a server, as bytes, by the server's clock, or on the
// clock of a sender that has borrowed it. How far the senders' clocks are from the server's they know only roughly.
type fleet struct {
	t       *rapid.T
	stage   *Stage
	data    []byte
	holder  int      // of senders
	senders []sender // the first is the server
	held    map[Permit]*held
	blurred time.Duration // by all that was not known of clocks when the window moved
}

// sender has a clock that is ahead of the server's, by something from early to late.
type sender struct{ ahead, early, late time.Duration }

// held is a permit of a sender, by the clock of the holder.
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

// shared makes the stage one on which the window is shared: some requests are sent later than their permit was taken,
// and some answers are reported later than they were received.
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

// delay is often none, and 200 ms at most.
func (f *fleet) delay(of string) time.Duration {
	if rapid.IntRange(0, 2).Draw(f.t, of+" late") > 0 {
		return 0
	}
	return time.Duration(rapid.IntRange(0, 200_000).Draw(f.t, "by µs")) * time.Microsecond
}

// use lets the window be used by the clock of its holder, which may have become another one.
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

// land ends a permit, and gives it and the time at which its sender's clock says that something was received to the
// window.
func (f *fleet) land(received time.Duration, p Permit, report func(w *Window, received time.Duration, p Permit)) {
	h := f.held[p]
	f.use(func(w *Window, now time.Duration) {
		holder, at := &f.senders[f.holder], received+origin+h.sender.ahead
		if holder != h.sender {
			at = min(at-h.sender.early+holder.late, now)
		}
		report(w, at, h.Permit)
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

// TestNoScheduleOfALentWindowDrawsAnAvoidableRefusal is TestNoScheduleDrawsAnAvoidableRefusal with a window that moves
// between a server and a process, whose reports come late and in another order.
func TestNoScheduleOfALentWindowDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, 1)
		play(t, f, f.shared).check()
	})
}

// Three share it.
func TestNoScheduleOfASharedWindowDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, 3)
		play(t, f, f.shared).check()
	})
}

// What a move costs is what is not known of the clocks.
func TestNoScheduleOfASharedWindowIsSlow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, 3)
		if s, bound := burst(t, f, func(s *Stage) { f.stage = s }); s.Now > bound+f.blurred {
			require.Fail(t, "too slow", "%v at %v, at most %v wanted\n%s", s.Now, s.quota, bound+f.blurred, s.story())
		}
	})
}

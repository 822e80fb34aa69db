package ratelimits

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// handed is a window that goes on from its own State again and again, as one that processes lend to each other.
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

// TestNoScheduleOfHandoversDrawsAnAvoidableRefusal is TestNoScheduleDrawsAnAvoidableRefusal with them. What shows that
// a log names its next place is not in a State.
func TestNoScheduleOfHandoversDrawsAnAvoidableRefusal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := play(t, &handed{now: func() bool { return rapid.IntRange(0, 3).Draw(t, "hand over") == 0 }})
		if !s.quota.NamesNext {
			s.check()
		}
	})
}

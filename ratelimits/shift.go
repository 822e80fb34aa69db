package ratelimits

import (
	"math"
	"time"
)

// Shift moves the window to another clock. The new clock shows the present one's time plus something between early and
// late, early <= late. Lower bounds move by early and upper bounds by late. So no request may be sent earlier than
// without the move, and each may be sent at most late - early later. Move permits in use with their own Shift. Times by
// the new clock should be positive, because 0 means none: let its origin lie some days in the past.
func (w *Window) Shift(early, late time.Duration) { w.visit(&shift{early, late}) }

// Shift moves the permit to another clock, as Window.Shift does.
func (p Permit) Shift(early, late time.Duration) Permit {
	p.visit(&shift{early, late})
	return p
}

// SentAt returns the permit for a request that is sent at the given time. A time before Sent has no effect.
func (p Permit) SentAt(at time.Duration) Permit {
	p.sent = max(p.sent, at)
	return p
}

// shift is the visitor that moves instants to another clock.
type shift struct{ early, late time.Duration }

func (s *shift) low(t *time.Duration, known bool)  { move(t, known, s.early) }
func (s *shift) high(t *time.Duration, known bool) { move(t, known, s.late) }

func move(t *time.Duration, known bool, by time.Duration) {
	if !known {
		return
	}
	if *t += by; *t == 0 {
		*t = 1 // 0 would mean none
	}
}

// trip makes the distance longer, because its two ends move apart.
func (s *shift) trip(ms *uint16) {
	apart := (s.late - s.early + time.Millisecond - 1) / time.Millisecond
	*ms = uint16(min(time.Duration(*ms)+apart, math.MaxUint16))
}

func (s *shift) span(*time.Duration)     {}
func (s *shift) number(n, _ int64) int64 { return n }
func (s *shift) length(n int) int        { return n }
func (s *shift) require(bool, string)    {}

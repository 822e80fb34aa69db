package ratelimits

import (
	"math"
	"time"
)

// Shift converts the window to another clock. The new clock is ahead of the old one by a duration between early and
// late, with early <= late. Lower bounds of times move by early, and upper bounds move by late. So no request may be
// sent earlier than without Shift, and each may be sent at most late - early later. Convert permits in use with their
// own Shift. The origin of the new clock should be some days in the past, so that its times are positive: a time of 0
// would mean that there is none.
func (w *Window) Shift(early, late time.Duration) { w.visit(&shift{early, late}) }

// Shift converts the permit to another clock, as Window.Shift does.
func (p Permit) Shift(early, late time.Duration) Permit {
	p.visit(&shift{early, late})
	return p
}

// SentAt returns the permit of a request that is sent only at the given time. If that is before Sent, the permit is
// unchanged.
func (p Permit) SentAt(at time.Duration) Permit {
	p.sent = max(p.sent, at)
	return p
}

// shift is the visitor that converts instants to another clock.
type shift struct{ early, late time.Duration }

func (s *shift) low(t *time.Duration, known bool)  { move(t, known, s.early) }
func (s *shift) high(t *time.Duration, known bool) { move(t, known, s.late) }

func move(t *time.Duration, known bool, by time.Duration) {
	if !known {
		return
	}
	if *t += by; *t == 0 {
		*t = 1 // 0 would mean that there is no instant
	}
}

// trip makes the distance longer, because the two instants move apart.
func (s *shift) trip(ms *uint16) {
	apart := (s.late - s.early + time.Millisecond - 1) / time.Millisecond
	*ms = uint16(min(time.Duration(*ms)+apart, math.MaxUint16))
}

func (s *shift) span(*time.Duration)     {}
func (s *shift) number(n, _ int64) int64 { return n }
func (s *shift) length(n int) int        { return n }
func (s *shift) require(bool, string)    {}

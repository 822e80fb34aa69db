package ratelimits

import "time"

// observe takes in a response that carried limits.
func (w *Window) observe(now time.Duration, p Permit, r Response) {
	m := sample{
		after:    min(r.ResetAfter, longestTrust),
		spent:    int32(max(r.Limit-r.Remaining, 1)), // its own request at least
		sent:     p.sent,
		received: now,
	}
	// Those that may have been processed after it: in flight now, or answered since it was sent.
	since := int(w.answered - p.answered - 1)
	bound := m.spent + w.inflight + int32(since)

	if w.unlimited || w.limit == 0 {
		w.unlimited = false
		w.used = bound
		if m.spent > 1+w.inflight+int32(since) {
			w.foreignUntil = w.turn + foreignTurns
		}
	}
	if w.limit != int32(r.Limit) {
		w.resize(now, int32(r.Limit))
	}
	// A refused request is not counted, so its numbers do not show how the bucket fills up.
	accepted := r.Class == ClassOK
	w.measure(m, accepted)
	first, reference, proven := !w.evidence.has, w.evidence.reference.reset(), KindUnproven
	if accepted {
		proven = w.evidence.weigh(m)
	}
	switch {
	case w.sliding != nil && !accepted:
		w.blind(now)
		return
	case w.sliding != nil:
		if w.sliding.observe(w.kind, now, m, w.charged(now)+1, since) {
			return
		}
	case w.kind == KindFixed:
		if w.observeFixed(now, p, m, bound) {
			return
		}
	}
	if w.kind != KindUnproven { // contradicted
		w.unprove(now)
		w.evidence.forget()
		first, proven = true, KindUnproven
	}
	moved := first || m.reset().low > reference.high
	w.observeUnproven(p, m, bound, moved)
	if moved {
		w.evidence.reference, w.evidence.has = m, accepted
	}
	if proven != KindUnproven {
		w.prove(proven, m)
	}
}

// measure learns how long the window is. The first request of a window opens it and is told all of it, unless windows are
// aligned to the server's clock; so this is at most the true length, while the longest of late may be too much after the
// period has become shorter.
func (w *Window) measure(m sample, accepted bool) {
	if accepted && m.spent == 1 {
		w.period = m.after
		w.longest -= max(w.longest-m.after, 0) / 4
	}
	w.period = max(w.period, m.after)
	w.longest = max(w.longest, m.after)
}

// observeUnproven is right for every kind: nothing comes back before the latest reset that was spoken of. Only a reset that
// has certainly moved on, be it a new window or a sliding one, replaces our count by the server's.
func (w *Window) observeUnproven(p Permit, m sample, bound int32, moved bool) {
	if w.closing || p.turn == w.turn || m.reset().low > w.previous.high {
		w.narrow(p, m)
	} else {
		// Perhaps it speaks of the window before, so it does not tell when this one closes, only when not.
		w.latest = max(w.latest, m.reset().high)
	}
	switch {
	case moved:
		w.nextTurn()
		w.used, w.late = bound, 0
	case m.spent > w.used:
		w.adopt(bound)
	}
}

// adopt raises our count to the server's where that is higher, which proves that somebody else uses the bucket. Then
// whatever may have been processed after the response comes on top. A lower count would prove nothing.
func (w *Window) adopt(bound int32) {
	w.used = bound
	w.foreignUntil = w.turn + foreignTurns
}

// observeFixed sorts the response into its window: the current one, an earlier one, or one that is newer than what was
// known. It reports false if a fixed window cannot have answered so.
func (w *Window) observeFixed(now time.Duration, p Permit, m sample, bound int32) bool {
	reset := m.reset()
	carried := p.turn != w.turn // sent before the window before this one had certainly closed
	switch {
	case carried && w.isPrevious(reset):
		// Not below what the server has counted in this one: then what it stood for was somebody else's.
		w.used = max(w.used-1, w.inflight, w.said)
	case carried && reset.low <= w.previous.high:
		// In this window, the one before, or even the next one: it stays charged, and what it says counts in case it was
		// this one.
		if w.closing && reset.high >= w.end.low+w.period {
			w.late++
		}
		if w.closing {
			w.said = max(w.said, m.spent)
		}
		if m.spent > w.used {
			w.used = bound
		}
	case !w.closing || reset.high >= w.end.low && reset.low <= w.latest:
		w.narrow(p, m)
		if m.spent > w.used {
			w.adopt(bound)
		}
	case reset.low > w.latest && now >= w.end.low:
		w.roll(interval{w.end.low, min(w.latest, now)})
		w.narrow(p, m)
		w.used, w.late = bound, 0
	default:
		return false // the window is still open, and its reset has moved
	}
	return true
}

// narrow takes in when the current window closes, according to one more response.
func (w *Window) narrow(p Permit, m sample) {
	reset := m.reset()
	w.said = max(w.said, m.spent)
	fewest := m.spent
	if p.turn != w.turn {
		fewest = -w.limit // those before it may have belonged to the window before
	}
	if !w.closing {
		w.closing, w.oneWindow = true, true
		w.end, w.latest = reset, max(reset.high, w.latest)
		w.fewest, w.most = fewest, m.spent
		return
	}
	// Resets that cannot be a period apart are the same one.
	if max(reset.high-w.end.low, w.end.high-reset.low) >= w.period {
		w.oneWindow = false
	}
	w.end = w.end.intersect(reset)
	w.latest = max(w.latest, reset.high)
	w.fewest, w.most = min(w.fewest, fewest), max(w.most, m.spent)
}

// closes returns the earliest moment at which it is certain that the window has closed: the end of the intersection, if the
// bucket is fixed and all the responses certainly spoke of one window; otherwise the latest of all.
//
// They did, if their resets cannot be a period apart; or if there are not enough requests for two windows: one that
// answered n was preceded by n - 1 others of its window. The latter counts only while nobody else uses the bucket.
func (w *Window) closes() time.Duration {
	same := w.oneWindow || w.alone() && w.fewest+w.most > w.used
	if w.kind == KindFixed && same && w.end.low <= w.end.high {
		return w.end.high
	}
	return w.latest
}

// alone reports that nobody else has been seen to use the bucket of late.
func (w *Window) alone() bool { return w.turn >= w.foreignUntil }

// isPrevious reports that a reset is certainly not the one of the current window: it lies before it, or less than a period
// after the earliest moment at which the window before can have closed.
func (w *Window) isPrevious(reset interval) bool {
	return w.closing && reset.high < w.end.low || reset.high < w.previous.low+w.period
}

// resize takes in that the limit is another one than before.
func (w *Window) resize(now time.Duration, limit int32) {
	w.evidence.forget()
	if w.sliding != nil {
		w.unprove(now)
	}
	w.limit = limit
}

// prove settles the kind.
func (w *Window) prove(kind Kind, m sample) {
	switch kind {
	case KindLog:
		s := &sliding{period: m.after}
		for range max(w.used-w.inflight, 0) {
			s.returns = append(s.returns, w.latest)
		}
		w.sliding = s
	case KindLeaky:
		w.sliding = &sliding{full: w.latest, slotLow: w.evidence.slotLow, slotHigh: w.evidence.slotHigh}
	}
	if w.sliding != nil {
		w.closing, w.late, w.serial, w.contested, w.blindTurn = false, 0, 0, 0, false
	}
	w.kind = kind
}

// unprove goes back to what is safe for every kind, keeping what is charged.
func (w *Window) unprove(now time.Duration) {
	if s := w.sliding; s != nil {
		w.used = w.inflight + int32(s.charged(w.kind, now))
		w.latest = max(s.last(w.kind), now)
		w.end = interval{now, w.latest}
		w.closing, w.oneWindow = true, false
		w.fewest, w.most = 0, 0
		w.sliding = nil
	}
	w.kind = KindUnproven
}

// charged returns how many requests may be counted by the server, those in flight included.
func (w *Window) charged(now time.Duration) int {
	if w.sliding != nil {
		return int(w.inflight) + w.sliding.charged(w.kind, now)
	}
	return int(w.used)
}

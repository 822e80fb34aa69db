package ratelimits

import (
	"slices"
	"time"
)

// largestLog is the largest limit of a bucket that is treated as a sliding log.
const largestLog = 10_000

// observe takes in a response that carried limits. The outcome before it came at the earlier time.
func (w *Window) observe(now time.Duration, p Permit, r *Response, earlier time.Duration) {
	// Those that may have been processed after it: in flight now, or answered since it was sent.
	since := int(w.answered - p.answered - 1)
	spent := w.explain(now, p, r, earlier, since)
	if r.Class == ClassOK {
		w.agree(p, spent, since)
	}
}

// explain is observe, but for what the server's count denies. It returns that count.
func (w *Window) explain(now time.Duration, p Permit, r *Response, earlier time.Duration, since int) (spent int32) {
	m := sample{
		after:    min(r.ResetAfter, LongestTrust),
		spent:    int32(max(r.Limit-max(r.Remaining, 0), 1)), // its own request at least
		sent:     p.sent,
		received: now,
	}
	bound := m.spent + w.inflight + int32(since)
	alone := w.used-w.inflight <= 1 // no other one is charged that was answered

	if w.unlimited || w.limit == 0 || w.recalled {
		w.unlimited, w.recalled = false, false
		w.limit, w.longest = int32(r.Limit), 0
		w.used = bound
	}
	w.resize(now, int32(r.Limit))
	// A refused request is not counted, so its numbers do not show how the bucket fills up.
	accepted := r.Class == ClassOK
	w.blinds = min(w.blinds, int32(since)) // whatever was answered before it was sent is in its count
	if w.closing.denied(m.reset(), m.sent) {
		w.closing, w.longest, w.period = closing{}, m.after, m.after
	}
	w.measure(&m, accepted)
	first, reference, proven := !w.evidence.has, w.evidence.reference.reset(), KindUnproven
	switch {
	case accepted && w.kind == KindUnproven:
		proven = w.evidence.weigh(&m)
	case accepted && w.kind == KindFixed:
		w.evidence.follow(&m)
	}
	switch {
	case w.sliding != nil && !accepted:
		w.blind(now, earlier, p)
		return m.spent
	case w.sliding != nil:
		if w.sliding.observe(w.kind, now, m, w.charged(now)+1, since) {
			return m.spent
		}
	case w.kind == KindFixed:
		if w.observeFixed(now, p, m, bound) {
			return m.spent
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
	if !alone && proven != KindFixed {
		w.evidence.remember(earlier)
	}
	w.evidence.trim(w.used - w.inflight)
	if proven == KindLog && w.limit > largestLog {
		return m.spent // each place would have to be remembered, and a window that is treated as unproven loses only time
	}
	if proven != KindUnproven {
		w.prove(proven, m)
	}
	return m.spent
}

// measure learns how long the window is. The first request of a window opens it and is told all of it, unless windows are
// aligned to the server's clock; so this is at most the true length, while the longest of late may be too much after the
// period has become shorter.
func (w *Window) measure(m *sample, accepted bool) {
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
	reset := m.reset()
	if w.closing.known || p.turn == w.turn || reset.low > w.previous.high {
		w.narrow(m)
	} else {
		// Perhaps it speaks of the window before, so it does not tell when this one closes, only when not.
		w.closing.latest = max(w.closing.latest, reset.high)
		w.doubt(reset)
	}
	if moved {
		w.nextTurn()
		w.used = bound
		return
	}
	w.raise(m, bound)
}

// raise takes over the server's count where that is higher than ours, which proves that somebody else uses the bucket. Then
// whatever may have been processed after the response comes on top. A lower count would prove nothing.
func (w *Window) raise(m sample, bound int32) {
	if m.spent > w.used {
		w.used = bound
	}
}

// agree takes off what was charged only because the server might have counted it, when its count shows that it has not: that of a
// request since whose sending nothing was answered, or the largest of all, when no request is left that may have been processed later.
// What the server has counted once is never taken off.
func (w *Window) agree(p Permit, spent int32, since int) {
	doubts := len(w.troubles().doubts)
	w.unheard = w.unheard || p.unheard
	switch {
	case w.sliding != nil:
	case since == 0 && spent+w.inflight < w.used:
		w.used = max(spent+w.inflight, w.said)
		if doubts > 0 {
			w.trouble.doubts = nil
		}
	case w.inflight == 0 && w.blinds == 0 && doubts == 0 && !w.unheard:
		w.used = min(w.used, max(w.said, spent))
	}
}

// observeFixed sorts the response into its window: the current one, an earlier one, or one that is newer than what was
// known. It reports false if a fixed window cannot have answered so.
func (w *Window) observeFixed(now time.Duration, p Permit, m sample, bound int32) bool {
	reset := m.reset()
	carried := p.turn != w.turn // sent before the window before this one had certainly closed
	switch {
	case carried && w.isPrevious(reset):
		// Not below what the server has counted in this one: then what it stood for was somebody else's.
		w.used = max(w.used-1, w.inflight, w.said+w.blinds)
	case carried && reset.low <= w.previous.high:
		// In this window, the one before, or even the next one: it stays charged, and what it says counts in case it was
		// this one.
		w.doubt(reset)
		if w.closing.known {
			w.said = max(w.said, m.spent)
		}
		w.raise(m, bound)
	case !w.closing.known || reset.high >= w.closing.within.low && reset.low <= w.closing.latest:
		w.narrow(m)
		w.raise(m, bound)
		return w.closing.compare(m)
	case reset.low > w.closing.latest && now >= w.closing.within.low:
		w.roll(now, interval{w.closing.within.low, min(w.closing.latest, now)})
		w.narrow(m)
		w.used = bound
	default:
		return false // the window is still open, and its reset has moved
	}
	return true
}

// narrow takes in what a response says of the current window.
func (w *Window) narrow(m sample) {
	w.said = max(w.said, m.spent)
	w.closing.narrow(m.received, m.reset(), w.period)
}

// isPrevious reports that a reset is certainly not the one of the current window: it lies before it, or less than a period
// after the earliest moment at which the window before can have closed.
func (w *Window) isPrevious(reset interval) bool {
	return w.closing.known && reset.high < w.closing.within.low || reset.high < w.previous.low+w.period
}

// resize takes in that the limit is another one than before. A lower one counts at once. A higher one, like a higher
// Remaining, proves nothing for the current window; from the next one on it counts if two responses in a row have named it,
// and then grows by doubling, as it may be a mistake of the server's that would cost a 429 for each request it lets go.
func (w *Window) resize(now time.Duration, limit int32) {
	known := w.limit > 0
	if limit == w.limit {
		if t := w.trouble; t != nil {
			t.raised, t.raisedTwice = 0, false
		}
		return
	}
	w.evidence.forget()
	if w.sliding != nil {
		w.unprove(now)
	}
	if known && limit > w.limit {
		t := w.inTrouble()
		t.raisedTwice = limit == t.raised
		t.raised = limit
		return
	}
	w.limit = limit
}

// raiseLimit lets a higher limit count that two responses in a row have named.
func (w *Window) raiseLimit() {
	t := w.trouble
	if t == nil {
		return
	}
	if t.raised > w.limit && t.raisedTwice {
		w.limit = min(t.raised, 2*w.limit)
	}
	t.raised, t.raisedTwice = 0, false
}

// prove settles the kind.
func (w *Window) prove(kind Kind, m sample) {
	switch kind {
	case KindLog:
		period := max(m.after, w.period) // the same, but for rounding
		w.sliding = &sliding{period: period, returns: w.returns(period)}
	case KindLeaky:
		low, high := w.evidence.series.slotLow, w.evidence.series.slotHigh
		w.sliding = &sliding{full: w.closing.latest + times(int(w.blinds), high), slotLow: low, slotHigh: high}
	}
	if w.sliding != nil {
		w.closing, w.blinds = closing{}, 0
		w.evidence.forget() // it is either believed or wrong
		if t := w.trouble; t != nil {
			t.doubts = nil
			t.surprise.calm()
		}
	}
	w.kind = kind
	w.evidence.series = nil
}

// returns is when the requests that are charged and answered come back, if the bucket is a log: a period after their
// responses, or, where it is not known when those came, when everything certainly has.
func (w *Window) returns(period time.Duration) []time.Duration {
	charged := int(max(w.used-w.inflight, 0))
	times := make([]time.Duration, 0, charged)
	back := func(at time.Duration) {
		if len(times) < charged {
			times = append(times, min(at+period+tick, w.closing.latest))
		}
	}
	back(w.outcome)
	for _, at := range slices.Backward(w.evidence.series.earlier) {
		back(at)
	}
	for len(times) < charged {
		times = append(times, w.closing.latest)
	}
	slices.Sort(times)
	return times
}

// unprove goes back to what is safe for every kind, keeping what is charged.
func (w *Window) unprove(now time.Duration) {
	if s := w.sliding; s != nil {
		w.used = w.inflight + int32(s.charged(w.kind, now))
		w.closing = closing{}
		w.closing.narrow(now, interval{now, max(s.last(w.kind), now)}, 0)
		w.sliding = nil
		w.evidence.forget()
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

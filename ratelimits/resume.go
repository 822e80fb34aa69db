package ratelimits

import "time"

// Resume continues with the window of a process that has ended. The window's requests in flight count as Lost. exact
// says that the old process sent no request after the window was written. If exact is false, all places of the window,
// and of a hidden limit, count as taken now. No wait of the window ends later than LongestTrust from now.
func (w *Window) Resume(now time.Duration, exact bool) {
	w.trust(now)
	w.advance(now)
	n := w.inflight
	w.inflight, w.probeOut = 0, false
	w.leaveUncounted(n, now)
	if w.rare != nil {
		w.rare.unawaited = 0
	}
	if w.limit == 0 || w.origin == unlimited {
		return
	}
	period, isLeaky := max(w.longest, w.evidence.next.period), w.evidence.kind() == KindLeaky
	if isLeaky {
		period = max(period, times(int(w.limit), w.evidence.leaky.slot.high))
	}
	period = min(period, LongestTrust)
	c := charge{received: now, reset: interval{now, now + period + tick}, n: n, answer: noAnswer}
	if !exact {
		w.resumeHidden(now)
		c.reset.high = max(c.reset.high, w.ledger.last())
		w.ledger.clear()
		c.others, c.counted, c.n = true, w.limit, max(n, w.limit)
		switch {
		case n > 0:
		case isLeaky, w.recentWhole && w.evidence.refuted&leaky != 0:
			c.answer = withLimits
		case w.evidence.refuted&leaky != 0:
			c.answer = withoutLimits
		}
	}
	if w.origin == declared {
		c.answer = withLimits
	}
	if c.n > 0 {
		w.outcome = now
		w.ledger.add(&c)
	}
}

// resumeHidden charges as many requests as a hidden limit accepts, as if all of them had been accepted now.
func (w *Window) resumeHidden(now time.Duration) {
	if w.rare == nil {
		return
	}
	h := &w.rare.hidden
	if n := h.room - h.count(now); n > 0 && now < h.until {
		h.passed.lift(now + h.span)
		h.passed.add(&charge{received: now, reset: interval{now, now + h.span}, n: n})
	}
}

// Busy returns the time until all slots are free, if no request in flight is answered before that. It returns 0 if all
// slots are free.
func (g *Global) Busy(now time.Duration) time.Duration {
	g.expire(now)
	if g.used() == 0 {
		return 0
	}
	return max(g.nth(g.used()-1)-now, 0)
}

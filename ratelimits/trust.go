package ratelimits

import "time"

// trust limits the waits of a window that another process has written: no charge and no hold ends later than
// LongestTrust from now. Other state, such as the times of tries of a hidden limit, may last longer, because it causes
// no wait.
func (w *Window) trust(now time.Duration) {
	latest := now + LongestTrust
	w.longest, w.recent = min(w.longest, LongestTrust), min(w.recent, LongestTrust)
	w.outcome = min(w.outcome, now)
	w.ledger.trust(latest)
	e := &w.evidence
	e.fixed.until, e.fixed.closes.high = min(e.fixed.until, latest), min(e.fixed.closes.high, latest)
	e.fixed.closes.low = min(e.fixed.closes.low, e.fixed.closes.high)
	e.next.period = min(e.next.period, LongestTrust)
	if w.rare != nil {
		r := w.rare
		r.hold.until, r.full = min(r.hold.until, latest), min(r.full, latest)
		r.hidden.span = min(r.hidden.span, LongestTrust)
		r.hidden.passed.trust(latest)
		r.late.trust()
		r.late.tryAt = min(r.late.tryAt, latest-w.longest)
	}
}

// trust makes every charge expire at the time latest or before.
func (l *ledger) trust(latest time.Duration) {
	if l.total > 0 && l.last() > latest {
		l.change(func(c charge) interval { return interval{min(c.reset.low, latest), min(c.reset.high, latest)} })
	}
}

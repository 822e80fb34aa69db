package ratelimits

import "time"

// trust reduces the waits of a window that another process has written: no charge and no hold ends later than
// LongestTrust from now. State that does not cause a wait, such as the tries of a hidden limit, may last longer.
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

// trust makes every charge expire at latest or earlier.
func (l *ledger) trust(latest time.Duration) {
	if l.total > 0 && l.last() > latest {
		l.change(func(c charge) interval { return interval{min(c.reset.low, latest), min(c.reset.high, latest)} })
	}
}

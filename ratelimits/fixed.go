package ratelimits

import (
	"slices"
	"time"
)

// When a fixed window closes, it forgets all requests that it has counted, and the next window begins only after that.
// So the ends of two windows are at least a period apart. Every response says when its window closes. Within one
// window, requests that are counted later get a shorter reset-after.

// fixedEvidence describes the latest window that responses have named.
type fixedEvidence struct {
	closes interval // when the window closes, according to all responses that certainly named this window
	// least is the shortest reset-after of the latest window. leastSpent is how many requests had been counted when that
	// reset-after was named.
	least      time.Duration
	leastSpent int32
	// count is the largest count of the latest window, plus the requests that were sent since. So many requests stay
	// charged until the window has certainly closed (until), even if the other charges turn out not to explain the count.
	count int32
	until time.Duration
}

// same reports whether two resets certainly belong to the same fixed window.
func same(a, b interval, longest time.Duration) bool { return a.farthest(b) < longest-tick }

// denies reports whether a response seems to name the window that ends at closes, although that window cannot have
// counted the answered request.
func (s *sample) denies(closes interval, longest time.Duration) bool {
	return same(closes, s.reset, longest) && (!closes.overlaps(s.reset) || s.sent >= closes.high)
}

func (e *fixedEvidence) refutes(s *sample, longest time.Duration) (refuted bool) {
	doubt := 2*tick + s.rounding
	switch overlaps := e.closes.overlaps(s.reset); {
	case e.least == 0 && s.received < e.until && s.reset.low <= e.until: // only count and until are set after a 429
		e.begin(s, max(e.count, s.spent), max(e.until, s.reset.high))
	case e.least == 0 || s.reset.low > e.closes.high: // a later window
		refuted = e.least > 0 && s.denies(e.closes, longest)
		e.begin(s, s.spent, s.reset.high)
	case !overlaps: // an earlier window
		refuted = s.denies(e.closes, longest)
	case same(e.closes, s.reset, longest):
		refuted = s.sent >= e.closes.high ||
			s.spent > e.leastSpent && s.after > e.least+doubt || s.spent < e.leastSpent && s.after < e.least-doubt
		alone := e.until <= e.closes.high
		if e.closes = e.closes.intersect(s.reset); alone {
			e.until = e.closes.high
		}
		if s.after < e.least {
			e.least, e.leastSpent = max(s.after, 1), s.spent
		}
		e.count = max(e.count, s.spent)
	default: // this window, the previous window or the next window
		if s.received >= e.until {
			e.count = 0
		}
		e.count, e.until = max(e.count, s.spent), max(e.until, s.reset.high)
	}
	return refuted
}

// begin starts the evidence of a window with the first response that names it.
func (e *fixedEvidence) begin(s *sample, count int32, until time.Duration) {
	e.closes, e.least, e.leastSpent = s.reset, max(s.after, 1), s.spent
	e.count, e.until = count, until
}

// over reports whether the window that a response names has certainly closed, because another response has named a
// later window.
func (e *fixedEvidence) over(s *sample) bool { return s.reset.high < e.closes.low }

// window adds a charge of requests that a fixed window has counted. It joins all charges of that window, and removes
// the charges of earlier windows.
func (l *ledger) window(c *charge, longest time.Duration) {
	list := l.list()
	if len(list) == 1 && same(list[0].reset, c.reset, longest) && list[0].reset.overlaps(c.reset) { // the usual case
		l.count(c, 1)
		list[0].join(c, list[0].reset.intersect(c.reset))
		return
	}
	for i := 0; i < len(list); {
		o := &list[i]
		switch {
		case same(o.reset, c.reset, longest) && o.reset.overlaps(c.reset):
			c.join(o, o.reset.intersect(c.reset))
		case o.reset.high >= c.reset.low:
			i++
			continue
		}
		l.count(o, -1)
		list = slices.Delete(list, i, i+1)
	}
	l.cut(len(list))
	l.add(c)
}

// isOutdated reports whether a response describes a window that should be over: the response counts requests, but names
// a reset-after of 0. Some compatible servers send such a response to the first request of a window, and others when a
// window closes late. Neither the count nor the reset of such a response can be used. There is one exception: a bucket
// with a limit of one may really have a reset-after of 0, as long as its responses have named no longer one.
func (w *Window) isOutdated(r *Response) bool {
	return r.Class == ClassOK && r.ResetAfter == 0 && r.ResetRounding == 0 &&
		(r.Remaining == 0 && (r.Limit > 1 || w.longest > 0) || w.longest > 0 && r.Limit-r.Remaining > 1)
}

// noteOutdated records an outdated response. If the bucket cannot be full, only a fixed window can have given such a
// response. If the bucket may be full, it may also be a log whose next place becomes free at once.
func (w *Window) noteOutdated(r *Response) {
	if r.Remaining == 0 && w.evidence.refuted&fixed == 0 && w.limit > 1 && int(w.ledger.total+w.inflight)+1 < r.Limit {
		w.evidence.refuted |= everyKind &^ fixed
	}
}

// settle sets the reset of requests that were counted, but whose responses named no reset. closes is when a window
// closes. Requests that were answered before closes were counted in this window or an earlier one, so they expire at
// closes. Requests that expire earlier anyway are not changed.
func (l *ledger) settle(closes interval) {
	list, settled := l.list(), false
	for i := range list {
		if c := &list[i]; c.answer > withLimits && c.sure > 0 && c.received < closes.low && closes.low <= c.reset.high {
			c.reset, c.answer, settled = closes, withLimits, true
		}
	}
	if settled {
		l.change(func(c charge) interval { return c.reset })
	}
}

// within returns how many charged requests may belong to the window that a response names.
func (l *ledger) within(s *sample) (n int32) {
	list := l.list()
	for i := range list {
		if c := &list[i]; c.reset.overlaps(s.reset) {
			n += c.n
		}
	}
	return n
}

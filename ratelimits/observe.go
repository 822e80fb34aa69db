package ratelimits

import (
	"cmp"
	"time"
)

// observe records a response that carried limits.
func (w *Window) observe(now time.Duration, p Permit, r *Response) {
	var s sample
	s.read(now, p.sent, r)
	since := int32(w.answered - p.answered - 1) // requests answered since this one was sent; perhaps processed after it
	limit := int32(min(r.Limit, mostCounted))
	first := w.limit == 0 || w.origin != learnt
	if first {
		w.limit, w.origin = limit, learnt
		if r.Class == ClassOK || r.Class == ClassUser {
			w.longest = 0
		} else { // these times are another limit's, and are used until a response names the bucket's own
			w.origin, w.longest = recalled, cmp.Or(w.longest, s.after)
		}
		w.ledger.clear()
		w.evidence = evidence{}
		if w.rare != nil && w.rare.late.by > 0 { // ExpectLate was called before the period was known
			w.rare.late.wait(now, s.after)
		}
	}
	if limit != w.limit {
		w.resize(now, p.sent, limit)
	} else if w.rare != nil {
		w.rare.raised, w.rare.raisedTwice = 0, false
	}
	w.uncounted = min(w.uncounted, since) // it counts all requests that were answered before this one was sent
	if p.sent >= w.uncountedAt {
		w.uncounted = 0
	}
	if p.elsewhere {
		w.uncounted = max(w.uncounted, 1)
	}
	var c charge
	c.received, c.n, c.counted = now, 1, s.spent
	c.reset.low, c.reset.high = s.reset.low, s.reset.high
	c.travelled(s.sent)
	v := consistent
	if r.Class == ClassOK {
		c.sure = 1
		v = w.learn(&s, &c)
		if since == 0 { // no response will count the earlier requests that this one does not count
			w.evidence.fixed.count = min(w.evidence.fixed.count, s.spent+w.inflight)
		}
	} else if r.Class == ClassUser && w.longest == 0 { // a known period stays, because a 429 may ask for a longer wait
		w.longest = s.after
	}
	switch {
	case r.Class == ClassUser: // the server did not count the request
	case w.evidence.windows() && w.evidence.fixed.over(&s): // the window that counted it has closed
	default:
		w.chargeCounted(p, &s, &c, since, first || v == contradicted)
		if w.ledger.unsure > 0 && v != contradicted {
			w.dropUnsure(&s, since)
		}
	}
}

// learn records what the response to an accepted request shows about how the bucket works.
func (w *Window) learn(s *sample, c *charge) verdict {
	v := w.judge(s)
	if w.evidence.fixed.count <= s.spent {
		w.countedAt = w.answered
	}
	switch v {
	case contradicted: // this response or an earlier one is wrong
		last := w.ledger.last()
		w.ledger.lift(c.reset.high)
		c.reset.high = max(c.reset.high, last)
	case believed:
		w.longest = s.after
		w.ledger.makeUnsure(s.sent, s.reset.high)
	}
	longer := v != contradicted && s.after > w.longest // if so, charges without a known reset also last longer
	if longer {
		w.longest = s.after
	}
	next := w.evidence.mayBeNext()
	if next || longer {
		w.ledger.occupy(w.longest, next)
	}
	if w.evidence.windows() {
		w.ledger.settle(s.reset)
	}
	w.recentWhole = w.recentWhole || s.spent == 1
	if w.recent = max(w.recent, s.after); s.received >= w.recentSince+2*w.longest {
		w.shorten()
		w.recent, w.recentSince, w.recentWhole, w.passed = s.after, s.received, s.spent == 1, 0
	}
	return v
}

// shorten reduces the period to the longest recent reset-after. A bucket of KindNext names its period only to a request
// that finds the log empty. So if KindNext is likely, there must have been such a request recently.
func (w *Window) shorten() {
	if w.recent < w.longest && (w.recentWhole || !w.evidence.mayBeNext()) {
		w.longest = w.recent
	}
}

// chargeCounted charges the requests that a response has counted: the answered request, and requests that only other
// clients can have sent.
func (w *Window) chargeCounted(p Permit, s *sample, c *charge, since int32, anew bool) {
	expired := int32(w.expired - p.expired) // number of requests that have expired since this one was sent
	if w.slides(s, expired) {
		w.evidence.refuted |= fixed
	}
	known := w.ledger.total + expired
	if w.evidence.windows() {
		known = w.ledger.within(s)
	}
	n := max(s.spent-1-w.inflight-known, 0)
	reset := c.reset
	switch by, _ := w.Late(); {
	case n == 0 || anew || w.evidence.others:
	case by > 0 && !w.evidence.windows(): // own requests only seemed to have expired: it opens even later
		reset = interval{w.openedFrom(), c.received}
	default:
		w.evidence.others = true
	}
	if anew || n > 0 { // requests in flight, and those answered since this one was sent, may not be counted
		n = max(n, s.spent+since-w.ledger.total-1)
	}
	if n > 0 {
		w.charge(&charge{received: c.received, reset: reset, n: n, counted: s.spent, others: true})
	}
	w.charge(c)
}

// dropUnsure removes requests that were charged only because the server might count them, if this response shows that
// the server does not count them. A response counts all requests that were answered before the request for this
// response was sent.
func (w *Window) dropUnsure(s *sample, since int32) {
	if since == 0 {
		w.ledger.dropUnsure(w.outcome, s.spent)
	}
	w.dropOthers()
}

// dropOthers removes requests that only other clients can have sent, if the responses to all own requests are known and
// have counted fewer requests.
func (w *Window) dropOthers() {
	if w.inflight == 0 && w.uncounted == 0 && w.ledger.unsure > 0 {
		w.ledger.dropUnsure(w.outcome, w.ledger.counted())
	}
}

// resize records a new limit. A lower limit applies at once. A higher limit applies only if two responses in a row have
// named it, and only one period later. Even then, the limit at most doubles. Without this care, a mistake of the server
// would cost a 429 for each request above the real limit.
func (w *Window) resize(now, sent time.Duration, limit int32) {
	rare := w.writeRare()
	switch {
	case limit < w.limit:
		w.limit, rare.loweredAt = limit, max(rare.loweredAt, now)
		rare.raised, rare.raisedTwice = 0, false
	case sent < rare.loweredAt: // the request was sent before the lower limit applied
		return
	case limit == rare.raised:
		rare.raisedTwice = true
	default:
		rare.raised, rare.raisedTwice, rare.raisedAt = limit, false, now
	}
	w.evidence.forget()
}

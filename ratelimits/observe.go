package ratelimits

import (
	"cmp"
	"time"
)

// observe takes in a response that carried limits.
func (w *Window) observe(now time.Duration, p Permit, r *Response) {
	var s sample
	s.read(now, p.sent, r)
	since := int32(w.answered - p.answered - 1) // answered since it was sent: may have been processed after it
	limit := int32(min(r.Limit, mostCounted))
	first := w.limit == 0 || w.origin != learnt
	if first {
		w.limit, w.origin = limit, learnt
		if r.Class == ClassOK || r.Class == ClassUser {
			w.longest = 0
		} else { // its times are not the bucket's, and count only until a response has told those
			w.origin, w.longest = recalled, cmp.Or(w.longest, s.after)
		}
		w.ledger.clear()
		w.evidence = evidence{}
		if w.rare != nil && w.rare.late.by > 0 { // expected before the period was known
			w.rare.late.wait(now, s.after)
		}
	}
	if limit != w.limit {
		w.resize(now, p.sent, limit)
	} else if w.rare != nil {
		w.rare.raised, w.rare.raisedTwice = 0, false
	}
	w.uncounted = min(w.uncounted, since) // whatever was answered before it was sent is in its count
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
		if since == 0 { // what was sent before and is not in its count never will be
			w.evidence.fixed.count = min(w.evidence.fixed.count, s.spent+w.inflight)
		}
	} else if r.Class == ClassUser && w.longest == 0 { // other classes' times are not the bucket's; refusals may extend it
		w.longest = s.after
	}
	switch {
	case r.Class == ClassUser: // it was not counted
	case w.evidence.windows() && w.evidence.fixed.over(&s): // nor is it any more
	default:
		w.chargeCounted(p, &s, &c, since, first || v == contradicted)
		if w.ledger.unsure > 0 && v != contradicted {
			w.dropUnsure(&s, since)
		}
	}
}

// learn takes in what an accepted response shows of how the bucket works.
func (w *Window) learn(s *sample, c *charge) verdict {
	v := w.judge(s)
	if w.evidence.fixed.count <= s.spent {
		w.countedAt = w.answered
	}
	switch v {
	case contradicted: // nobody knows which response was wrong
		last := w.ledger.last()
		w.ledger.lift(c.reset.high)
		c.reset.high = max(c.reset.high, last)
	case believed:
		w.longest = s.after
		w.ledger.makeUnsure(s.sent, s.reset.high)
	}
	longer := v != contradicted && s.after > w.longest // and so does what no response has spoken of take
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

// shorten forgets a reset-after that has not been seen again. A log that names its next place names its period only to a request that
// finds it empty.
func (w *Window) shorten() {
	if w.recent < w.longest && (w.recentWhole || !w.evidence.mayBeNext()) {
		w.longest = w.recent
	}
}

// chargeCounted charges what a response had counted: its own request, and what can only be somebody else's.
func (w *Window) chargeCounted(p Permit, s *sample, c *charge, since int32, anew bool) {
	expired := int32(w.expired - p.expired) // since it was sent
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
	case by > 0 && !w.evidence.windows(): // they seemed to have come back, and are later than others were
		reset = interval{w.openedFrom(), c.received}
	default:
		w.evidence.others = true
	}
	if anew || n > 0 { // those in flight need not have been counted yet, nor those answered since it was sent
		n = max(n, s.spent+since-w.ledger.total-1)
	}
	if n > 0 {
		w.charge(&charge{received: c.received, reset: reset, n: n, counted: s.spent, others: true})
	}
	w.charge(c)
}

// dropUnsure takes off what was charged only because the server might count it, when it cannot: it counts all that was answered before a request
// was sent, and the largest of all counts is that of the latest request, if none is in flight.
func (w *Window) dropUnsure(s *sample, since int32) {
	if since == 0 {
		w.ledger.dropUnsure(w.outcome, s.spent)
	}
	w.dropOthers()
}

// dropOthers takes off what can only be others', if the responses to all requests are known and have counted less.
func (w *Window) dropOthers() {
	if w.inflight == 0 && w.uncounted == 0 && w.ledger.unsure > 0 {
		w.ledger.dropUnsure(w.outcome, w.ledger.counted())
	}
}

// resize takes in that the limit is another one than before. A lower one counts at once. A higher one, like a higher
// Remaining, proves nothing for now; a period later it counts if two responses in a row have named it,
// and then grows by doubling, as it may be a mistake of the server's that would cost a 429 for each request it lets go.
func (w *Window) resize(now, sent time.Duration, limit int32) {
	rare := w.writeRare()
	switch {
	case limit < w.limit:
		w.limit, rare.loweredAt = limit, max(rare.loweredAt, now)
		rare.raised, rare.raisedTwice = 0, false
	case sent < rare.loweredAt: // it was another one then
		return
	case limit == rare.raised:
		rare.raisedTwice = true
	default:
		rare.raised, rare.raisedTwice, rare.raisedAt = limit, false, now
	}
	w.evidence.forget()
}

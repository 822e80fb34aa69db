package ratelimits

import (
	"slices"
	"time"
)

// Declare sets a limit that responses do not name: at most limit requests in any period. Call it for a new window. A
// request counts from the moment at which it is sent until one period after its outcome. A request that gets a 429
// stops counting at once.
func (w *Window) Declare(limit int, period time.Duration) {
	w.limit, w.longest, w.origin = int32(min(max(limit, 1), mostCounted)), min(max(period, tick), LongestTrust), declared
	w.probing, w.probeOut = notProbing, false // there is nothing to learn
}

// Declared reports whether Declare has set the limit.
func (w *Window) Declared() bool { return w.origin == declared }

// Remember adds charges from another window of the same declared limit, until this window has as many charges as the
// other one. Use it for a window that has lost its state, or whose state is older. The added charges count until the
// given time, but at most for one period.
func (w *Window) Remember(now time.Duration, other *Window, until time.Duration) {
	w.advance(now)
	other.advance(now)
	until = min(until, now+w.longest)
	missing := min(other.ledger.total, w.limit) - w.ledger.total
	for _, c := range slices.Backward(other.ledger.list()) { // begin with the charges that expire last
		if missing <= 0 || until <= now {
			return
		}
		high := min(c.reset.high, until)
		w.ledger.add(&charge{received: min(c.received, now), reset: interval{high, high}, n: min(c.n, missing)})
		missing -= c.n
	}
}

// chargeDeclared charges a request whose outcome is known, unless the outcome is a 429.
func (w *Window) chargeDeclared(received time.Duration, p Permit, r *Response) {
	if r.Class != ClassOK {
		return
	}
	c := charge{received: received, reset: interval{p.sent + w.longest, received + w.longest}, n: 1, sure: 1}
	c.travelled(p.sent)
	w.ledger.add(&c)
}

package ratelimits

import (
	"slices"
	"time"
)

// Declare sets a limit that responses do not name, for a new window: at most limit requests in any period. A request
// counts from when it is sent until one period after its outcome. A request that gets a 429 stops counting at once.
func (w *Window) Declare(limit int, period time.Duration) {
	w.limit, w.longest, w.origin = int32(min(max(limit, 1), mostCounted)), min(max(period, tick), LongestTrust), declared
	w.probing, w.probeOut = notProbing, false // there is nothing to learn
}

// Declared reports whether Declare has set the limit.
func (w *Window) Declared() bool { return w.origin == declared }

// Remember adds charges until this window has as many as another window of the same declared limit. Use it for a window
// that has lost its state, or has an older state. The added charges count until the given time, but for a period at
// most.
func (w *Window) Remember(now time.Duration, other *Window, until time.Duration) {
	w.advance(now)
	other.advance(now)
	until = min(until, now+w.longest)
	missing := min(other.ledger.total, w.limit) - w.ledger.total
	for _, c := range slices.Backward(other.ledger.list()) { // the charges that expire last
		if missing <= 0 || until <= now {
			return
		}
		high := min(c.reset.high, until)
		w.ledger.add(&charge{received: min(c.received, now), reset: interval{high, high}, n: min(c.n, missing)})
		missing -= c.n
	}
}

// chargeDeclared charges a request that has ended, unless a 429 has refused it.
func (w *Window) chargeDeclared(received time.Duration, p Permit, r *Response) {
	if r.Class != ClassOK {
		return
	}
	c := charge{received: received, reset: interval{p.sent + w.longest, received + w.longest}, n: 1, sure: 1}
	c.travelled(p.sent)
	w.ledger.add(&c)
}

package ratelimits

import "time"

// Predict returns how long a new request would have to wait, as far as is known now, if a number of other requests
// (ahead) are sent before it. It includes the hold, a hidden limit, the charges that have to expire, and a period for
// each full window of the other requests. Predict returns 0 if no reason to wait is known.
func (w *Window) Predict(now time.Duration, ahead int) time.Duration {
	at, ok := w.Next(now)
	switch {
	case ok && at <= now && ahead <= 0:
		return 0
	case !ok:
		at = now
	}
	ahead = min(max(ahead, 0), mostAhead)
	rare := w.readRare()
	at = max(at, rare.hidden.predict(now, w.inflight, ahead), w.predict(max(now, rare.hold.Until()), ahead))
	return at - now
}

// mostAhead is the upper bound of the number of requests ahead, so that predictions do not overflow.
const mostAhead = 1_000_000_000

// predict returns the time at which a new request can be sent according to the ledger, if a number of other requests
// (ahead) are sent first. Until that time n requests have to expire. If fewer than n are charged now, the others are
// requests that have not been sent yet. Each window that these unsent requests fill takes another period.
func (w *Window) predict(now time.Duration, ahead int) time.Duration {
	limit, total, inflight := int(w.limit), int(w.ledger.total), int(w.inflight)
	// Requests in flight are counted only up to the limit. If there are more, some of them may belong to another bucket.
	n := ahead + 1 + min(int(w.charged(now)), max(limit, total)) - limit
	if limit == 0 || w.origin == unlimited || n <= 0 {
		return now
	}
	period := w.longest
	if w.evidence.kind() == KindLeaky {
		period = times(limit, w.evidence.leaky.slot.high)
	}
	period += w.readRare().late.by
	rounds := (max(n-max(total, limit), 0) + limit - 1) / limit
	n -= rounds * limit
	at := now + period // when the requests in flight will have expired
	switch {
	case n <= total:
		at = max(now, w.opens(w.ledger.nth(int32(n))))
	case total > 0 && n > total+inflight:
		at = max(now, w.opens(w.ledger.last()))
	}
	return at + times(rounds, period)
}

// times returns n times d, but at most a hundred years.
func times(n int, d time.Duration) time.Duration {
	if n > 0 && d > longest/time.Duration(n) {
		return longest
	}
	return time.Duration(n) * d
}

// Limit returns the number of requests per window, 0 if no limit is known.
func (w *Window) Limit() int {
	if w.origin == unlimited {
		return 0
	}
	return int(w.limit)
}

// Known reports whether responses have shown the limit, or have shown that the bucket has no limit.
func (w *Window) Known() bool { return w.origin == unlimited || w.limit > 0 && w.origin != recalled }

// Unlimited reports whether the bucket's responses carry no limits, so that no request has to wait.
func (w *Window) Unlimited() bool { return w.origin == unlimited }

// Probing reports whether one request has to succeed before other requests are sent, for example after a hold.
func (w *Window) Probing() bool { return w.probing != notProbing }

// Period returns the length of the window as far as responses have shown it. If they have not shown it, Period returns
// 0.
func (w *Window) Period() time.Duration { return w.longest }

// Kind returns the way in which the bucket refills.
func (w *Window) Kind() Kind { return w.evidence.kind() }

// InFlight returns the number of permits whose outcome has not been reported.
func (w *Window) InFlight() int { return int(w.inflight) }

// Remaining returns how many more requests are certain to be accepted now, 0 if no limit is known.
func (w *Window) Remaining(now time.Duration) int {
	w.advance(now)
	if w.Limit() == 0 {
		return 0
	}
	return max(int(w.limit-w.charged(now)), 0)
}

// HoldWait returns the rest of the hold, 0 if there is no hold.
func (w *Window) HoldWait(now time.Duration) time.Duration { return w.readRare().hold.Wait(now) }

// HoldClass returns the class of the 429 that caused the hold. Without a hold, it returns ClassShared if the window
// waits for a hidden limit, and otherwise ClassOK.
func (w *Window) HoldClass(now time.Duration) Class {
	rare := w.readRare()
	switch {
	case rare.hold.Wait(now) > 0:
		return rare.holdClass
	case rare.hidden.predict(now, w.inflight, 0) > now:
		return ClassShared
	}
	return ClassOK
}

// AwaitsProbe reports whether the next request waits for the outcome of a single request that was sent before all
// others. This happens after a hold. It also happens if the single request tries whether a hidden limit accepts more.
func (w *Window) AwaitsProbe(now time.Duration) bool {
	if _, ok := w.Next(now); ok {
		return false
	}
	_, ok := w.readRare().hidden.next(now, w.inflight, w.awaited())
	return w.probing != notProbing || !ok
}

// WaitClass returns the class of the 429 that causes the wait of the next request. It returns ClassOK if there is no
// wait, or if another wait is longer.
func (w *Window) WaitClass(now time.Duration) Class {
	if at, ok := w.Next(now); ok && at <= now {
		return ClassOK
	}
	rare := w.readRare()
	hold, hidden, at := rare.hold.Until(), rare.hidden.predict(now, w.inflight, 0), w.predict(now, 0)
	switch {
	case hold > now && hold >= max(hidden, at):
		return rare.holdClass
	case hidden > now && hidden >= at:
		return ClassShared
	}
	return ClassOK
}

// Reset returns the time at which all known charges have certainly expired and the hold is over. This time may be in
// the past. Reset ignores requests in flight.
func (w *Window) Reset() time.Duration {
	rare := w.readRare()
	return max(rare.hold.Until(), w.outcome, w.ledger.last()+rare.late.by, w.evidence.fixed.until+rare.late.by)
}

// Needed returns the time before which forgetting the window could cause a 429: the result of Reset or, if that is
// later, the time at which a known hidden limit is forgotten. Needed ignores requests in flight.
func (w *Window) Needed() time.Duration {
	if hidden := &w.readRare().hidden; hidden.room > 0 {
		return max(w.Reset(), hidden.until)
	}
	return w.Reset()
}

package ratelimits

import "time"

// hiddenLimit remembers how much a limit let through that no header shows: the shared ones, of a channel say. It is only met
// by a 429, and a burst would meet it with everything that is in flight. So as many go as last time, within the same time; whether
// more would is tried with one request alone, and less and less often as long as it is refused.
type hiddenLimit struct {
	room   int32         // how many were let through last time; 0: not known
	vain   uint8         // how often one more was tried in vain
	span   time.Duration // how long it takes until they come back
	passed ledger        // of late; its charges were received when they were sent
	tryAt  time.Duration // then one more may be tried
	met    time.Duration // when it was met
	until  time.Duration // then it is forgotten
}

const maxVain = 7

// refuse takes in that the limit was met by a request sent at a moment, after so many had passed since it was met before, and that
// nothing may leave for wait.
func (h *hiddenLimit) refuse(now, sent, wait time.Duration, passed int32) {
	if passed > 0 && sent >= h.met { // the first of those that were in flight together
		since, n := sent, h.count(now)
		if n > 0 {
			since = h.passed.list()[0].sent()
		}
		known := h.room > 0 && now < h.until
		switch {
		case !known:
			h.room, h.span, h.vain = passed, 0, 0
		case n == h.room:
			h.vain = min(h.vain+1, maxVain)
		case n < h.room/2: // it lets less through than it did
			h.room = max(n, 1)
		case n < h.room: // it takes longer until they come back, or somebody else is there
			h.span = min(h.span+wait, 2*h.span)
		}
		h.span = max(h.span, now+wait-since)
		h.tryAt = now + wait + h.span*(1<<h.vain-1)
	}
	h.met = max(h.met, now)
	h.until = max(h.until, now+3*wait, h.tryAt+2*h.span)
}

// accepted takes in that a request was let through, as was received then.
func (h *hiddenLimit) accepted(now, received, sent time.Duration) {
	if h.room == 0 || sent < h.met {
		return
	}
	h.passed.add(&charge{received: sent, reset: interval{received, received + h.span}, n: 1})
	h.passed.expire(now)
	h.room = max(h.room, h.passed.total)
}

// count returns how many have passed that are not forgotten yet.
func (h *hiddenLimit) count(now time.Duration) int32 {
	if h.passed.total > 0 { // nothing writes to that of noRare
		h.passed.expire(now)
	}
	return h.passed.total
}

// next returns when one more may leave, as Window.Next does.
func (h *hiddenLimit) next(now time.Duration, inflight, awaited int32) (at time.Duration, ok bool) {
	if h.room == 0 || now >= h.until {
		return now, true
	}
	n := h.count(now)
	if n+inflight < h.room {
		return now, true
	}
	h.until = max(h.until, now+3*h.span) // it is not forgotten as long as somebody waits for it
	switch {
	case n == 0, now >= h.tryAt && h.passed.next()-now > h.span/4: // one that could not have gone soon anyway
		return now, awaited == 0
	}
	return h.passed.next(), true
}

// predict returns when a request may leave that has so many others ahead of it, as far as that is known.
func (h *hiddenLimit) predict(now time.Duration, inflight int32, ahead int) time.Duration {
	n := h.count(now)
	late := int(n+inflight) + ahead - int(h.room)
	at := now
	switch {
	case h.room == 0 || now >= h.until || late < 0:
		return now
	case n > 0:
		at = h.passed.next()
	case h.vain == 0: // it may let more through, nobody has tried
		return now
	}
	return at + times(late/int(h.room), h.span)
}

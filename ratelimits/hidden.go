package ratelimits

import (
	"cmp"
	"slices"
	"time"
)

// hiddenLimit remembers how much a limit let through that no header shows: the shared ones, of a channel say. It is only met
// by a 429, and a burst would meet it with everything that is in flight. So as many go as last time, within the same time; whether
// more would is tried with one request alone, and less and less often as long as it is refused.
type hiddenLimit struct {
	room   int32         // how many were let through last time; 0: not known
	vain   uint8         // how often one more was tried in vain
	span   time.Duration // how long it takes until they come back
	passed []passage     // of late
	tryAt  time.Duration // then one more may be tried
	met    time.Duration // when it was met
	until  time.Duration // then it is forgotten
}

// passage is a request that was let through, and when it has probably been forgotten.
type passage struct{ sent, back time.Duration }

const maxVain = 7

// refuse takes in that the limit was met by a request sent at a moment, after so many had passed since it was met before, and that
// nothing may leave for wait.
func (h *hiddenLimit) refuse(now, sent, wait time.Duration, passed int32) {
	if passed > 0 && sent >= h.met { // the first of those that were in flight together
		since, n := sent, h.count(now)
		if n > 0 {
			since = h.passed[0].sent
		}
		known := h.room > 0 && now < h.until
		switch {
		case !known:
			h.room, h.span, h.vain = passed, 0, 0
		case n == h.room:
			h.vain = min(h.vain+1, maxVain)
		case n < h.room: // it takes longer until they come back, or somebody else is there
			h.span = min(h.span+wait, 2*h.span)
		}
		h.span = max(h.span, now+wait-since)
		h.tryAt = now + wait + h.span*(1<<h.vain-1)
	}
	h.met = now
	h.until = max(h.until, now+3*wait, h.tryAt+2*h.span)
}

// accepted takes in that a request was let through.
func (h *hiddenLimit) accepted(now, sent time.Duration) {
	if h.room == 0 || sent < h.met {
		return
	}
	n := h.count(now)
	h.passed = append(h.passed, passage{sent, now + h.span})
	h.room = max(h.room, n+1)
}

// count returns how many have passed that are not forgotten yet.
func (h *hiddenLimit) count(now time.Duration) int32 {
	h.passed = slices.DeleteFunc(h.passed, func(p passage) bool { return p.back <= now })
	return int32(len(h.passed))
}

// next returns when one more may leave, as Window.Next does.
func (h *hiddenLimit) next(now time.Duration, inflight int32) (at time.Duration, ok bool) {
	if h.room == 0 || now >= h.until {
		return now, true
	}
	n := h.count(now)
	if n+inflight < h.room {
		return now, true
	}
	if n == 0 {
		return now, inflight == 0
	}
	back := slices.MinFunc(h.passed, func(a, b passage) int { return cmp.Compare(a.back, b.back) }).back
	if now >= h.tryAt && back-now > h.span/4 { // one that could not have gone soon anyway
		return now, inflight == 0
	}
	return back, true
}

// predict returns when a request may leave that has so many others ahead of it, as far as that is known.
func (h *hiddenLimit) predict(now time.Duration, inflight int32, ahead int) time.Duration {
	before := inflight + int32(ahead)
	at, ok := h.next(now, before)
	if !ok || at <= now {
		return now
	}
	late := h.count(now) + before - h.room
	return at + times(int(late/h.room), h.span)
}

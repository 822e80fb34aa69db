package ratelimits

import "time"

// hiddenLimit remembers how many requests a limit that no header names has accepted, for example the shared limit of a
// channel. Only a 429 shows such a limit. In a burst, every request in flight above the limit gets a 429. So, in the
// time for which the limit counts a request, only as many requests are sent as the limit accepted last time. Then a
// single request tries whether the limit accepts more. After each refused try, the tries become rarer.
type hiddenLimit struct {
	room   int32         // number of requests that the limit accepted last time; 0: not known
	vain   uint8         // number of refused tries, at most maxVain
	span   time.Duration // how long the limit counts an accepted request
	passed ledger        // recently accepted requests; here the received of a charge is when the request was sent
	tryAt  time.Duration // time from which a request may try whether the limit accepts more
	met    time.Duration // when the latest 429 came
	until  time.Duration // when the limit is forgotten
}

const maxVain = 7

// refuse records a 429 for a request that was sent at the time sent. passed is the number of requests that were
// accepted since the previous 429. wait is how long no request may be sent.
func (h *hiddenLimit) refuse(now, sent, wait time.Duration, passed int32) {
	if passed > 0 && sent >= h.met { // only the first 429 of requests that were in flight together
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
		case n < h.room/2: // the limit accepts fewer requests than before
			h.room = max(n, 1)
		case n < h.room: // requests count for longer than assumed, or other clients use the limit
			h.span = min(h.span+wait, 2*h.span)
		}
		h.span = max(h.span, now+wait-since)
		h.tryAt = now + wait + h.span*(1<<h.vain-1)
	}
	h.met = max(h.met, now)
	h.until = min(max(h.until, now+3*wait, h.tryAt+2*h.span), now+LongestTrust)
}

// accepted records that a request was accepted. The response to the request came at the time received.
func (h *hiddenLimit) accepted(now, received, sent time.Duration) {
	if h.room == 0 || sent < h.met {
		return
	}
	h.passed.add(&charge{received: sent, reset: interval{received, received + h.span}, n: 1})
	h.passed.expire(now)
	h.room = max(h.room, h.passed.total)
}

// count returns how many accepted requests the limit counts now.
func (h *hiddenLimit) count(now time.Duration) int32 {
	if h.passed.total > 0 { // do not write to noRare
		h.passed.expire(now)
	}
	return h.passed.total
}

// next returns the time at which one more request may be sent. The results mean the same as those of Window.Next.
func (h *hiddenLimit) next(now time.Duration, inflight, awaited int32) (at time.Duration, ok bool) {
	if h.room == 0 || now >= h.until {
		return now, true
	}
	n := h.count(now)
	if n+inflight < h.room {
		return now, true
	}
	h.until = max(h.until, now+3*h.span) // do not forget the limit while requests wait for it
	switch {
	case n == 0, now >= h.tryAt && h.passed.next()-now > h.span/4: // a try, unless a place becomes free soon
		return now, awaited == 0
	}
	return h.passed.next(), true
}

// predict returns the time at which a request may be sent if a number of requests (ahead) are sent before it, as far as
// this is known.
func (h *hiddenLimit) predict(now time.Duration, inflight int32, ahead int) time.Duration {
	n := h.count(now)
	late := int(n+inflight) + ahead - int(h.room)
	at := now
	switch {
	case h.room == 0 || now >= h.until || late < 0:
		return now
	case n > 0:
		at = h.passed.next()
	case h.vain == 0: // no request has tried yet whether the limit accepts more
		return now
	}
	return at + times(late/int(h.room), h.span)
}

package ratelimits

import (
	"slices"
	"time"
)

// sliding is what a Window knows about a bucket whose kind is proven to be sliding: when each answered request has
// certainly come back. Requests in flight are counted by the Window; each of them takes a whole place until its outcome.
type sliding struct {
	// A log's answered requests come back at these times, earliest first.
	returns []time.Duration
	period  time.Duration

	// A leaky bucket is certainly full again at this time, were nothing more processed.
	full              time.Duration
	slotLow, slotHigh time.Duration
}

// next returns the earliest time at which one more request is certain to be accepted. ok is false when only the outcome
// of one in flight can tell.
func (s *sliding) next(kind Kind, now time.Duration, limit, inflight int) (at time.Duration, ok bool) {
	if kind == KindLog {
		s.expire(now)
		missing := len(s.returns) + inflight + 1 - limit
		switch {
		case missing <= 0:
			return now, true
		case missing > len(s.returns):
			return 0, false
		}
		return s.returns[missing-1], true
	}
	// The server accepts while the bucket lacks at most limit-1 slots; those in flight may come on top of what it lacks.
	if inflight >= limit {
		return 0, false
	}
	room := max(times(limit-1, s.slotLow)-times(inflight, s.slotHigh), 0)
	return max(s.full-room, now), true
}

// observe takes in a response that carried limits: lacking is the number of requests that the server had counted.
// charged requests of ours were counted at most, in flight or not yet back; since is how many outcomes arrived after the
// response's request was sent. It reports false if the response cannot come from a bucket of this kind.
func (s *sliding) observe(kind Kind, now time.Duration, m sample, charged, since int) bool {
	if kind == KindLog {
		if m.after < s.period-2*tick || m.after > s.period+2*tick {
			return false
		}
		s.append(now)
		// What the server counted beyond ours was sent by somebody else, at the latest just now.
		for foreign := int(m.spent) - charged; foreign > 0; foreign-- {
			s.append(now)
		}
		return true
	}
	low := (m.after - tick) / time.Duration(m.spent)
	high := unboundedSlot
	if m.spent > 1 {
		high = (m.after + tick) / time.Duration(m.spent-1)
	}
	if low > s.slotHigh || high < s.slotLow {
		return false
	}
	s.slotLow, s.slotHigh = max(s.slotLow, low), min(s.slotHigh, high)
	// Two bounds hold: what was known plus this request; and what the response says, plus those that may have been
	// processed after it. Only if the response lies beyond the first one, somebody else has used the bucket.
	known := max(s.full, now) + s.slotHigh
	said := m.reset().high
	if since > 0 {
		said = max(said, now) + time.Duration(since)*s.slotHigh
	}
	if m.reset().low > known {
		s.full = said
	} else {
		s.full = min(known, said)
	}
	return true
}

// append charges a log with a request that was processed at some time until now.
func (s *sliding) append(now time.Duration) {
	s.returns = append(s.returns, now+s.period+tick)
}

// fill charges a leaky bucket with a request that was processed at some time until now.
func (s *sliding) fill(now time.Duration) {
	s.full = max(s.full, now) + s.slotHigh
}

// charged returns the number of answered requests that have not certainly come back.
func (s *sliding) charged(kind Kind, now time.Duration) int {
	if kind == KindLog {
		s.expire(now)
		return len(s.returns)
	}
	if s.full <= now {
		return 0
	}
	return int((s.full - now + s.slotLow - 1) / max(s.slotLow, 1))
}

// last returns the time at which everything that was answered has certainly come back.
func (s *sliding) last(kind Kind) time.Duration {
	if kind == KindLog {
		if len(s.returns) == 0 {
			return 0
		}
		return s.returns[len(s.returns)-1]
	}
	return s.full
}

// predict returns the time at which a request can probably go that has so many others ahead of it.
func (s *sliding) predict(kind Kind, now time.Duration, limit, inflight, ahead int) time.Duration {
	if kind == KindLeaky {
		room := limit - 1 - inflight - ahead
		return max(s.full, now) + times(max(-room, 0), s.slotHigh) - times(max(room, 0), s.slotHigh)
	}
	s.expire(now)
	missing := len(s.returns) + inflight + 1 + ahead - limit
	if missing <= 0 {
		return now
	}
	place := missing - 1
	if place < len(s.returns) {
		return s.returns[place]
	}
	place -= len(s.returns) // those still in flight, and the ones after them, return a period after they are answered
	return now + times(1+place/limit, s.period)
}

func (s *sliding) expire(now time.Duration) {
	n := 0
	for n < len(s.returns) && s.returns[n] <= now {
		n++
	}
	s.returns = slices.Delete(s.returns, 0, n)
}

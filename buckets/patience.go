package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// Requests may wait for the outcome of another request: the first request of a route, or the first one after a 429. The
// awaited request may be a large upload, or the body of its 429 may never arrive, so the wait for an outcome is
// bounded. After that time, the next request is sent with what is known at that moment. If nothing is known, one
// request of each major parameter is sent. Only ordered requests wait longer.

// patience is how long requests wait for the outcome of another request after it was sent, or after the headers of its
// 429 arrived. Most attempts have ended after that time, and clients with a timeout of 15 s, such as discord.js, have
// not given up yet.
const patience = 10 * time.Second

// await records that other requests may wait for the outcome of a lease in flight from now on.
func (s *server) await(now time.Duration, h *held) {
	s.awaited.Remove(&h.awaited)
	h.awaited.Value, h.awaited.Arrived = h, now
	s.awaited.Insert(&h.awaited)
}

// stopWaiting ends the wait for all outcomes that have been awaited for long enough.
func (s *server) stopWaiting(now time.Duration) {
	for e := s.awaited.Head(); e != nil && e.Arrived+patience <= now; e = s.awaited.Head() {
		s.awaited.Remove(e)
		e.Value.stopWaiting(now)
	}
}

// isAwaited reports whether other requests may wait for the outcome of a lease. A nil lease is never awaited.
func (h *held) isAwaited() bool { return h != nil && h.awaited.Queued() }

func (h *held) stopWaiting(now time.Duration) {
	b := h.bucket
	b.stopWaitingFor(&h.permit)
	for i := range h.provisional {
		c := &h.provisional[i]
		c.bucket.stopWaitingFor(&c.permit)
		c.bucket.changed()
	}
	h.goOnUnread(now)
	if b.leadsAlone(h) {
		h.split(now)
	}
	b.changed()
}

// split moves the routes of an UNKNOWN bucket to one UNKNOWN bucket for each major parameter, because the bucket's
// first request has not ended in time. Without the split, many requests without an outcome, one after another, would
// delay all others.
func (h *held) split(now time.Duration) {
	b, unanswered, touched := h.bucket, &ratelimits.Response{}, make(map[*bucket]struct{})
	erring := h.entry.erring(b.group)
	h.entry.leave(b.group, unanswered)
	h.entry.move(now, b, erring, routeMoves, touched)
	h.entry.moveFamily(now, b, erring, unanswered, false, touched)
	for t := range touched {
		t.changed()
		h.server.judgeAgain(t)
	}
}

// stopWaitingFor ends the wait for the outcome of a permit. If processes share a window, the window has its own bound
// on that wait.
func (s *source) stopWaitingFor(p *permit) {
	if s.link == nil {
		p.Permit = s.window.StopWaiting(p.Permit)
	}
}

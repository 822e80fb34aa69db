package buckets

import "time"

// Others may wait for the outcome of a request: of the first one of a route, say, or of the first one after a 429. The
// request may be a large upload, or the body of its 429 may never come. So each outcome is waited for only so long.
// Then the next request goes with what is known. Only requests that have to be sent in order wait longer.

// patience is how long the outcome of a request is waited for after it was sent, or after the headers of its 429 came.
// Most attempts have ended by then.
const patience = 15 * time.Second

// await notes that others may wait for the outcome of a lease in flight from now on.
func (s *server) await(now time.Duration, h *held) {
	s.awaited.Remove(&h.awaited)
	h.awaited.Value, h.awaited.Arrived = h, now
	s.awaited.Insert(&h.awaited)
}

// stopWaiting ends the waiting for all outcomes that have been waited for long enough.
func (s *server) stopWaiting(now time.Duration) {
	for e := s.awaited.Head(); e != nil && e.Arrived+patience <= now; e = s.awaited.Head() {
		s.awaited.Remove(e)
		e.Value.stopWaiting(now)
	}
}

// isAwaited reports that others may wait for the outcome of a lease, which is nil if none is in flight.
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
	b.changed()
}

// stopWaitingFor ends the waiting for the outcome of a permit. Processes that share a window have a bound of their own.
func (s *source) stopWaitingFor(p *permit) {
	if s.link == nil {
		p.Permit = s.window.StopWaiting(p.Permit)
	}
}

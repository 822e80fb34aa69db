package shared

import "github.com/ratelight/ratelight/buckets"

// events are what a session has to tell, one after the other. The session's lock guards them.
type events struct {
	happened func(buckets.SharedEvent) // nil: nobody listens
	untold   []buckets.SharedEvent     // the first of them is being told
}

var _ buckets.SharedNotifier = (*session)(nil)

// Notify lets happened be called for each event.
func (s *session) Notify(happened func(buckets.SharedEvent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.happened = happened
}

// tell tells of an event. s.mu is held.
func (s *session) tell(e buckets.SharedEvent) {
	if s.events.happened == nil || s.closed {
		return
	}
	s.events.untold = append(s.events.untold, e)
	if len(s.events.untold) == 1 {
		s.running.Go(s.tellAll)
	}
}

// tellAll tells of all events until there are no more, or the session is closed.
func (s *session) tellAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.events.untold) > 0 && !s.closed {
		s.tellFirst()
		s.events.untold = s.events.untold[1:]
	}
}

// tellFirst calls the listener without the lock.
func (s *session) tellFirst() {
	e := s.events.untold[0]
	s.mu.Unlock()
	defer s.mu.Lock()
	s.events.happened(e)
}

// lost takes in that the server has not kept what it knew.
func (s *session) lost() {
	s.meter.count(&s.meter.counted.Losses)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(buckets.SharedEvent{Kind: buckets.StateLost})
}

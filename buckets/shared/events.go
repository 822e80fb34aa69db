package shared

import "github.com/ratelight/ratelight/buckets"

// events are reported to the listener one after the other. session.mu guards them.
type events struct {
	happened func(buckets.SharedEvent) // nil: there is no listener
	untold   []buckets.SharedEvent     // the first one is being reported
}

var _ buckets.SharedNotifier = (*session)(nil)

// Notify sets the listener, which is called for each event from a goroutine of the session.
func (s *session) Notify(happened func(buckets.SharedEvent)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.happened = happened
}

// tell reports an event. s.mu must be held.
func (s *session) tell(e buckets.SharedEvent) {
	if s.events.happened == nil || s.closed {
		return
	}
	s.events.untold = append(s.events.untold, e)
	if len(s.events.untold) == 1 {
		s.running.Go(s.tellAll)
	}
}

// tellAll reports events until there are no more, or the session is closed.
func (s *session) tellAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.events.untold) > 0 && !s.closed {
		s.tellFirst()
		s.events.untold = s.events.untold[1:]
	}
}

// tellFirst calls the listener for the first event, with s.mu released. s.mu must be held.
func (s *session) tellFirst() {
	e := s.events.untold[0]
	s.mu.Unlock()
	defer s.mu.Lock()
	s.events.happened(e)
}

// lost records that the server has lost its state.
func (s *session) lost() {
	s.meter.count(&s.meter.counted.Losses)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(buckets.SharedEvent{Kind: buckets.StateLost})
}

package shared

import (
	"fmt"
	"time"
)

// Event describes what happened to the state that a manager shares with other processes, see Hooks.Shared.
type Event struct {
	// Kind is what happened.
	Kind EventKind
	// After is how long the server was away, for OutageEnded.
	After time.Duration
	// Cause is why the server cannot be reached, for OutageBegan. It contains no credential.
	Cause error
}

// EventKind is a kind of Event.
type EventKind uint8

const (
	// OutageBegan: the server cannot be reached, and the outage policy applies.
	OutageBegan EventKind = iota + 1
	// OutageEnded: the server can be reached again.
	OutageEnded
	// StateLost: the server knows less than this process had seen, or another process has reported that. Stats.Losses
	// counts it.
	StateLost
	// ClockSet: this process has noticed that the server's clock was set; a StateLost follows. Stats.ClockSteps counts
	// it.
	ClockSet
	// ProcessSuspended: this process stood still together with its clock. Stats.Suspensions counts it.
	ProcessSuspended
)

var sharedEventNames = [...]string{
	OutageBegan:      "outage began",
	OutageEnded:      "outage ended",
	StateLost:        "state lost",
	ClockSet:         "clock set",
	ProcessSuspended: "process suspended",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if k > 0 && int(k) < len(sharedEventNames) {
		return sharedEventNames[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Notifier is implemented by a Session that reports events. Notify is called once, before all other methods. The
// session calls happened from one of its goroutines, one event after the other, with no lock held, and not after Close.
type Notifier interface {
	Notify(happened func(Event))
}

// events are reported to the listener one after the other. session.mu guards them.
type events struct {
	happened func(Event) // nil: there is no listener
	untold   []Event     // events to report; the listener is being called for the first one
}

var _ Notifier = (*session)(nil)

// Notify sets the listener, which is called for each event from a goroutine of the session.
func (s *session) Notify(happened func(Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events.happened = happened
}

// tell reports an event. s.mu must be held.
func (s *session) tell(e Event) {
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
	s.tell(Event{Kind: StateLost})
}

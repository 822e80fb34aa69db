package shared

import (
	"fmt"
	"time"
)

// Event says what has happened to the state that a manager shares with other processes; see Hooks.Shared.
type Event struct {
	// Kind says what has happened.
	Kind EventKind
	// After is the duration of the outage if Kind is OutageEnded.
	After time.Duration
	// Cause says why the server cannot be reached if Kind is OutageBegan. It contains no credential.
	Cause error
}

// EventKind is a kind of Event.
type EventKind uint8

const (
	// OutageBegan: the server cannot be reached, and the outage policy applies.
	OutageBegan EventKind = iota + 1
	// OutageEnded: the server can be reached again.
	OutageEnded
	// StateLost: the server knows less than this process has seen before, or another process has reported a loss.
	// Stats.Losses counts these events.
	StateLost
	// ClockSet: this process has noticed that the server's clock was set. A StateLost event follows. Stats.ClockSteps
	// counts these events.
	ClockSet
	// ProcessSuspended: this process and its clock stood still for some time. Stats.Suspensions counts these events.
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

// Notifier is implemented by a Session that reports events. Notify is called once, before all other methods. A
// goroutine of the session calls happened for one event after the other, with no lock held. It makes no call after
// Close has returned.
type Notifier interface {
	Notify(happened func(Event))
}

// events holds the listener for events and the events to report, one after the other. session.mu guards it.
type events struct {
	happened func(Event) // nil: there is no listener
	untold   []Event     // events to report; the listener is being called for the first of them
}

var _ Notifier = (*session)(nil)

// Notify sets the listener. A goroutine of the session calls it for each event.
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

// tellAll reports events until none is left, or the session is closed.
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

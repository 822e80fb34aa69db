package shared

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Store keeps the state of shared limits on a server. Pass it to buckets.WithShared. It is safe for concurrent use, and
// several managers can use it.
type Store struct {
	engine     Engine
	subscriber Subscriber // the engine, nil if it is no Subscriber
	options    options
	keys       keys

	mu       sync.Mutex
	sessions map[*session]struct{} // sessions that are not closed
}

var _ Source = (*Store)(nil)

// New returns a store on an engine. If the engine is also a Subscriber, the store listens for messages. New makes no
// calls. It returns an error if an option is invalid or the engine is nil. Options that are nil are ignored.
func New(engine Engine, opts ...Option) (*Store, error) {
	if v := reflect.ValueOf(engine); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("shared: engine is nil: expected one such as OnScripts returns")
	}
	s := &Store{engine: engine, options: defaultOptions(), sessions: map[*session]struct{}{}}
	for _, option := range opts {
		if option == nil {
			continue
		}
		if err := option(&s.options); err != nil {
			return nil, err
		}
	}
	s.subscriber, _ = engine.(Subscriber)
	s.keys = newKeys(s.options.application)
	return s, nil
}

// Join starts a session, see Source.
func (s *Store) Join(clock clockwork.Clock, origin time.Time) Session {
	session := newSession(s, clock, origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[session] = struct{}{}
	return session
}

func (s *Store) forget(session *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// Outage returns an *OutageError while a manager that uses the store has noticed that the server cannot be reached, and
// nil otherwise. If no manager uses the store, it returns nil. It does not call the server.
func (s *Store) Outage() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.sessions {
		if err := session.outageErr(); err != nil {
			return err
		}
	}
	return nil
}

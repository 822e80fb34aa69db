package shared

import (
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

// Store keeps the state of shared limits on a server. Pass it to buckets.WithShared. Several managers can use the same
// Store. A Store is safe for concurrent use.
type Store struct {
	engine     Engine
	subscriber Subscriber // the engine, nil if it is no Subscriber
	options    options
	keys       keys

	mu       sync.Mutex
	sessions map[*session]struct{} // sessions that are not closed
}

var _ Source = (*Store)(nil)

// New returns a store that uses an engine. If the engine is also a Subscriber, the store receives messages. New does
// not call the engine. It returns an error if an option is invalid or the engine is nil. It ignores options that are
// nil.
func New(engine Engine, opts ...Option) (*Store, error) {
	if v := reflect.ValueOf(engine); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("shared: engine is nil: use an engine, for example one from OnScripts")
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

// Join starts a session. It implements Source.
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

// Outage returns an *OutageError if a manager that uses the store has noticed that the server cannot be reached, and
// nil otherwise. If no manager uses the store, Outage returns nil. It does not call the server.
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

package buckets

import (
	"reflect"
)

// WithShared lets the manager share its limits with the managers of other processes whose stores have the same
// application and server: together they behave as one. Nil is ignored, and so is a nil pointer to a store.
//
// See the documentation of buckets/shared for how it works, what it costs, and what happens during an outage of the
// server. Several managers can use one store, and do not close it.
func WithShared(s Shared) Option {
	return func(settings *settings) {
		if s != nil && !nilPointer(s) {
			settings.shared = s
		}
	}
}

// nilPointer reports whether there is nothing behind an interface: whoever opens no store may have a nil one of its type.
func nilPointer(s Shared) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// Shares reports whether the manager was made with WithShared. Then responses should have a Stamp, as buckets/shared/spectacles needs it.
func (m *RESTBucketManager) Shares() bool { return m.settings.shared != nil }

// joinSession starts the session of a manager that shares. m.moves is held.
func (m *RESTBucketManager) joinSession() {
	if s := m.settings.shared; s != nil {
		session := s.Join(m.settings.clock, m.origin)
		if n, ok := session.(SharedNotifier); ok && m.settings.hooks.Shared != nil {
			n.Notify(m.settings.hooks.Shared)
		}
		m.shared = m.sharedStats()
		m.joined.Store(&session)
	}
}

// leaveSession ends it.
func (m *RESTBucketManager) leaveSession() {
	if session := m.session(); session != nil {
		session.Close()
	}
}

// session returns the session, nil if nothing is shared.
func (m *RESTBucketManager) session() SharedSession {
	if session := m.joined.Load(); session != nil {
		return *session
	}
	return nil
}

// othersInvalid returns how many invalid responses other processes have counted.
func (m *RESTBucketManager) othersInvalid(s *server) int {
	if session := m.session(); session != nil && s.name == "" { // it knows of Discord only
		return session.Others()
	}
	return 0
}

// reportInvalid counts an invalid response. It returns the fraction of the budget that was passed by it, 0 if none.
func (m *RESTBucketManager) reportInvalid(s *server) (fraction float64) {
	if session := m.session(); session != nil && s.name == "" {
		session.Invalid()
	}
	return s.budget.report(m.now())
}

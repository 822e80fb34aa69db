package buckets

import (
	"reflect"
	"strconv"
	"time"
)

// WithShared lets the manager share its limits with the managers of other processes that were given a store of the same application
// on the same server: together they behave as one. Nil is ignored, and so is a nil pointer to a store.
//
// See the documentation of buckets/shared for how, what it costs, and what happens when the server is away. The store can be used
// by several managers, and is not closed by them.
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

// Shares reports whether the manager was made with WithShared. Then responses should have a Stamp.
func (m *RESTBucketManager) Shares() bool { return m.settings.shared != nil }

// joinSession starts the session of a manager that shares, part ends it.
func (m *RESTBucketManager) joinSession() {
	if s := m.settings.shared; s != nil {
		session := s.Join(m.settings.clock, m.origin)
		m.joined.Store(&session)
	}
}

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

// shared returns the major parameter as all processes write it, empty if there is none.
func (m major) shared() string {
	if m == noMajor {
		return ""
	}
	text := strconv.FormatUint(m.id, 10)
	if m.token != 0 {
		text += ":" + strconv.FormatUint(m.token, 16)
	}
	return text
}

// outage returns why nobody can be asked at the moment, nil if that is not so or not known.
func (m *RESTBucketManager) outage() error {
	if session, ok := m.session().(SharedOutage); ok {
		return session.Outage()
	}
	return nil
}

// away returns why nobody can be asked at the moment, nil if an ask in the bucket does not wait for that.
func (b *RESTBucket) away(now time.Duration, a *ask) error {
	err := b.manager().outage()
	if err == nil || b.link.decides(now) && (b.discovery == nil || b.discovery.may || b.discovery.probing) && (a.exempt || b.group.authentication.global.certain(now)) {
		return nil
	}
	return err
}

// outage returns what everybody who waits in the bucket is to be told, if that is how it is when the others cannot be asked.
func (b *RESTBucket) outage() error {
	switch {
	case b.link != nil && !b.link.lent:
		return b.link.remote.Err()
	case b.discovery != nil && !b.discovery.may:
		return b.discovery.discovery.Err()
	}
	return nil
}

// canTell reports that it is known whether an ask can leave at once that waits as w, or comes now if that is nil. Where others have
// to be asked for that, even those who do not wait have to wait for their answer.
func (b *RESTBucket) canTell(now time.Duration, a *ask, w *waiter) bool {
	switch {
	case b.window.HoldWait(now) > 0 || b.queue != nil && b.queue.subLimitOf(a) != nil:
		return true // whatever the others say
	case a.atOnce && b.away(now, a) != nil:
		return true // nobody can say
	case b.link != nil && !b.link.lent:
		if b.link.remote.Err() != nil {
			return true
		}
		if w == nil || w.ticket == 0 || !b.link.remote.Answered(w.ticket) || b.leaves(now) {
			return false
		}
	case b.discovery != nil && !b.discovery.canTell():
		return false
	}
	if a.exempt || b.group.authentication.global.partKnown() {
		return true
	}
	return w != nil && !(b.inLine && b.lineOf == b.group.authentication.global)
}

// leaves reports that the first in the queue can leave as soon as somebody looks, as far as the bucket is concerned.
func (b *RESTBucket) leaves(now time.Duration) bool {
	head := b.queue.waiting.Head()
	if b.inLine || head == nil {
		return false
	}
	at, ok := b.next(now, &head.Value.ask)
	return ok && at <= now
}

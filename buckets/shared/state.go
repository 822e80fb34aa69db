package shared

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// state is what all processes together know of a bucket. The server stores the state, and a process that has to change
// something replaces it. All times are by the server's clock.
type state struct {
	version version
	era     int64             // number of the era in which the state was written
	owner   string            // session that has the loan of the bucket, "" if there is no loan
	window  ratelimits.Window // with all requests in flight
	queue   []place           // the earliest waiting requests of each session, in the order of arrival
	flights []flight          // in the order of their permits
	members []member
	user    string        // the session that made the latest call
	mixed   time.Duration // when user last changed from one session to another
}

// version is the version of a state. Within one life, newer states have larger numbers. After the server has lost the
// state, the next state begins another life.
type version struct{ life, number int64 }

// member is a session that has used the bucket lately.
type member struct {
	session string
	call    uint64        // number of the session's latest call that took effect
	seen    time.Duration // the latest time at which the session was known to be alive: the time of the call, or later
	waiting int           // number of waiting requests
}

// place is the place of a waiting request in the queue.
type place struct {
	session string
	number  uint64
	arrived time.Duration
}

// flight is a request with a permit whose outcome is not known yet.
type flight struct {
	session string
	number  uint64
	permit  ratelimits.Permit
}

// memberMemory is how long a state contains a session that no longer uses the bucket. It is longer than the time in
// which a session may repeat a call.
const memberMemory = time.Minute

// member returns the entry of a session in the state. It adds an entry if there is none.
func (s *state) member(session string) *member {
	i := slices.IndexFunc(s.members, func(m member) bool { return m.session == session })
	if i < 0 {
		i = len(s.members)
		s.members = append(s.members, member{session: session})
	}
	return &s.members[i]
}

// touch records a call of a session, and removes members that have not used the bucket for memberMemory.
func (s *state) touch(now time.Duration, session string, call uint64, waiting int) {
	m := s.member(session)
	m.call, m.seen, m.waiting = call, max(m.seen, now), waiting
	if s.user != session {
		if s.user != "" {
			s.mixed = now
		}
		s.user = session
	}
	s.members = slices.DeleteFunc(s.members, func(m member) bool {
		return now-m.seen > memberMemory && !s.uses(m.session)
	})
}

// latest returns the latest time at which any member was known to be alive.
func (s *state) latest() (at time.Duration) {
	for _, m := range s.members {
		at = max(at, m.seen)
	}
	return at
}

// clockStep is how far a time in a state must be in the future to prove that the server's clock was set back.
const clockStep = time.Second

// waits reports whether a session has a place in the queue.
func (s *state) waits(session string) bool {
	return slices.ContainsFunc(s.queue, func(p place) bool { return p.session == session })
}

// uses reports whether a session has a place in the queue or a request in flight.
func (s *state) uses(session string) bool {
	return s.waits(session) || slices.ContainsFunc(s.flights, func(f flight) bool { return f.session == session })
}

// enqueue replaces the places of a session in the queue.
func (s *state) enqueue(session string, places []place) {
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.session == session })
	s.queue = append(s.queue, places...)
	slices.SortStableFunc(s.queue, func(a, b place) int { return int(a.arrived - b.arrived) })
}

// serve grants permits to the first requests in the queue, as many as the window allows, and returns their places.
func (s *state) serve(now time.Duration) (granted []place) {
	n := 0
	for ; n < len(s.queue); n++ {
		permit, ok := s.window.Take(now)
		if !ok {
			break
		}
		p := s.queue[n]
		s.flights = append(s.flights, flight{p.session, p.number, permit})
		s.member(p.session).waiting--
	}
	granted = slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	return granted
}

// flight returns the index of a flight in s.flights, or a negative number if there is no such flight.
func (s *state) flight(session string, number uint64) int {
	return slices.IndexFunc(s.flights, func(f flight) bool { return f.number == number && f.session == session })
}

// land removes a flight and returns its permit. It returns false if there is no such flight.
func (s *state) land(session string, number uint64) (ratelimits.Permit, bool) {
	i := s.flight(session, number)
	if i < 0 {
		return ratelimits.Permit{}, false
	}
	permit := s.flights[i].permit
	s.flights = slices.Delete(s.flights, i, i+1)
	return permit, true
}

// bury removes a dead session. The outcomes of the session's requests will never be known. The requests may have been
// sent at any time until now, because a permit may be used long after it was granted.
func (s *state) bury(now time.Duration, session string) {
	s.enqueue(session, nil)
	s.flights = slices.DeleteFunc(s.flights, func(f flight) bool {
		if f.session == session {
			s.window.Lost(now, f.permit)
		}
		return f.session == session
	})
	s.members = slices.DeleteFunc(s.members, func(m member) bool { return m.session == session })
}

// silent returns the other sessions that use the bucket and may be dead (all), and the time at which the next session
// may be dead (next), 0 if there is no such time.
func (s *state) silent(now time.Duration, session string) (all []string, next time.Duration) {
	for _, m := range s.members {
		dead := m.seen + sessionTime
		switch {
		case m.session == session || !s.uses(m.session):
		case dead < now:
			all = append(all, m.session)
		case next == 0 || dead < next:
			next = dead
		}
	}
	return all, next
}

// others returns how many requests of other sessions wait. If ahead is set, it counts only requests that have a place
// before the first place of the given session.
func (s *state) others(session string, ahead bool) int {
	n := 0
	if !ahead {
		for _, m := range s.members {
			if m.session != session {
				n += m.waiting
			}
		}
		return n
	}
	for _, p := range s.queue {
		if p.session == session {
			break
		}
		n++
	}
	return n
}

// first reports whether the first place in the queue belongs to a session.
func (s *state) first(session string) bool { return len(s.queue) > 0 && s.queue[0].session == session }

// courtesy returns how long a session waits, after permits have become free, before it calls the server. If the session
// leaves this call to other sessions, calls is false.
func (s *state) courtesy(session string) (wait time.Duration, calls bool) {
	i := slices.IndexFunc(s.queue, func(p place) bool { return p.session != s.queue[0].session })
	switch {
	case s.first(session):
		return 0, true
	case !s.waits(session), i >= 0 && s.queue[i].session == session:
		return courtesy, true
	}
	return 0, false
}

// lendable reports whether the bucket may be lent to a session. This is so if the session can send now, no other
// session has used the bucket for loanBias, and the period is at most longestLoanPeriod.
func (s *state) lendable(now time.Duration, session string) bool {
	if now-s.mixed <= loanBias || !s.first(session) || s.window.Period() > longestLoanPeriod {
		return false
	}
	for _, m := range s.members {
		if m.session != session && s.uses(m.session) {
			return false
		}
	}
	at, ok := s.window.Next(now)
	return ok && at <= now
}

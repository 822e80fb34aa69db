package shared

import (
	"slices"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// state is what the processes have agreed on about a bucket. The server keeps it; whoever has something to say writes a new one in the
// place of the one that he knows. All times are the server's.
type state struct {
	version version
	era     int64             // in which it was written
	owner   string            // the session that the bucket is lent to, "" if it is shared
	window  ratelimits.Window // with all requests in flight
	queue   []place           // who waits, in the order of arrival; of each session only the first ones
	flights []flight          // in the order in which they were granted
	members []member
	user    string        // the session that came last
	mixed   time.Duration // when that was another one than before
}

// version tells states apart. What was lost and begins again is another life.
type version struct{ life, number int64 }

// member is a session that has used the bucket of late.
type member struct {
	session string
	call    uint64        // the latest call whose state was kept
	seen    time.Duration // when that was
	waiting int           // requests
}

// place is that of a request that waits.
type place struct {
	session string
	number  uint64
	arrived time.Duration
}

// flight is a request that was granted and has no outcome yet.
type flight struct {
	session string
	number  uint64
	permit  ratelimits.Permit
}

// memberMemory is how long a session is remembered that has nothing to do with the bucket any more: longer than it repeats a call.
const memberMemory = time.Minute

// member returns what is known of a session, which is added if need be.
func (s *state) member(session string) *member {
	i := slices.IndexFunc(s.members, func(m member) bool { return m.session == session })
	if i < 0 {
		i = len(s.members)
		s.members = append(s.members, member{session: session})
	}
	return &s.members[i]
}

// touch takes in that a session makes a call, and forgets those that have nothing to do here any more.
func (s *state) touch(now time.Duration, session string, call uint64, waiting int) {
	m := s.member(session)
	m.call, m.seen, m.waiting = call, max(m.seen, now), waiting
	if s.user != session {
		if s.user != "" {
			s.mixed = now
		}
		s.user = session
	}
	s.members = slices.DeleteFunc(s.members, func(m member) bool { return now-m.seen > memberMemory && !s.uses(m.session) })
}

// latest returns when somebody was last alive for certain.
func (s *state) latest() (at time.Duration) {
	for _, m := range s.members {
		at = max(at, m.seen)
	}
	return at
}

// clockStep is by how much a clock may go back before that is more than jitter.
const clockStep = time.Second

// waits reports that a session has a place in the queue.
func (s *state) waits(session string) bool {
	return slices.ContainsFunc(s.queue, func(p place) bool { return p.session == session })
}

// uses reports that a session waits or has something in flight.
func (s *state) uses(session string) bool {
	return s.waits(session) || slices.ContainsFunc(s.flights, func(f flight) bool { return f.session == session })
}

// enqueue replaces the places of a session.
func (s *state) enqueue(session string, places []place) {
	s.queue = slices.DeleteFunc(s.queue, func(p place) bool { return p.session == session })
	s.queue = append(s.queue, places...)
	slices.SortStableFunc(s.queue, func(a, b place) int { return int(a.arrived - b.arrived) })
}

// serve grants permits to those who wait, the first ones first.
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

// land takes a flight out of those in flight. It reports false if there is none.
func (s *state) land(session string, number uint64) (ratelimits.Permit, bool) {
	i := slices.IndexFunc(s.flights, func(f flight) bool { return f.number == number && f.session == session })
	if i < 0 {
		return ratelimits.Permit{}, false
	}
	permit := s.flights[i].permit
	s.flights = slices.Delete(s.flights, i, i+1)
	return permit, true
}

// bury takes in that a session is dead: nobody will say what became of its requests. It may have sent them at any time until others had to
// believe that, as a permit may be taken long after it was granted.
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

// silent returns the other sessions that use the bucket and may be dead, and when another one may be, 0 if there is none.
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

// others returns how many requests of other sessions wait, before the first one of a session if ahead is set.
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

// first reports that a session has the first place in the queue.
func (s *state) first(session string) bool { return len(s.queue) > 0 && s.queue[0].session == session }

// lendable reports that a session may have the bucket for itself: it has something to send now, and nobody else has been here of late.
func (s *state) lendable(now time.Duration, session string) bool {
	if now-s.mixed <= loanBias || !s.first(session) || s.window.Period() > longestLoanPeriod {
		return false
	}
	for _, m := range s.members {
		if m.session != session && (s.uses(m.session) || m.waiting > 0) {
			return false
		}
	}
	at, ok := s.window.Next(now)
	return ok && at <= now
}

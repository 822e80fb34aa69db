package httpclient

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// enoughPlaces is in how many places of one route an Authorization is refused when it is stopped everywhere. Two are enough if they
// are of different routes.
const enoughPlaces = 3

// standing is how an Authorization fares on a server. A 401 does not prove that it is not valid: it can be about a missing permission
// or scope, and some routes answer it to every bot. So one 401 is counted against the Authorization only until a request succeeds
// that was sent after it; 401s of different routes, or of several places of one, stop it as a whole.
//
// The order is that of sending: requests are numbered as they leave. What a request says that left before another one succeeded is
// out of date, also if its answer comes later.
type standing struct {
	owner
	bot bool // the Authorization is a bot's

	sent     atomic.Uint64 // how many requests have left
	worked   atomic.Uint64 // the number of the latest that succeeded, or that was sent before a reset
	doubtful atomic.Bool   // something is known against it: nobody takes the lock otherwise

	mu      sync.Mutex
	refused []refusal // the latest 401s of different places
	until   time.Time // if they are enough, it rests until then
	proof   uint64    // the number of a 401 that proves that it is not valid, 0 if there is none
	since   uint64    // requests up to this number were sent before a reset
}

// refusal is a 401.
type refusal struct {
	place
	number uint64
}

func newStanding(o owner, authorization string) *standing {
	const prefix = "Bot "
	return &standing{
		owner: o, bot: len(authorization) > len(prefix) && strings.EqualFold(authorization[:len(prefix)], prefix),
	}
}

// check returns the error for an Authorization that is stopped everywhere. There may be none at all.
func (s *standing) check() *CredentialError {
	if s == nil || !s.doubtful.Load() {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := &CredentialError{Status: 401, Everywhere: true}
	switch {
	case s.proof > s.worked.Load():
		return err
	case s.enough() && s.until.After(now):
		err.RetryAfter = s.until.Sub(now)
		return err
	case len(s.refused) == 0:
		s.doubtful.Store(false)
	}
	return nil
}

// enough reports that the 401s stop the Authorization. The lock is held.
func (s *standing) enough() bool {
	worked := s.worked.Load()
	s.refused = slices.DeleteFunc(s.refused, func(r refusal) bool { return r.number <= worked })
	return len(s.refused) >= enoughPlaces || len(s.refused) == 2 && s.refused[0].route != s.refused[1].route
}

// succeed takes in that the request of that number succeeded.
func (s *standing) succeed(number uint64) {
	for {
		worked := s.worked.Load()
		if number <= worked || s.worked.CompareAndSwap(worked, number) {
			return
		}
	}
}

// counts reports that the answer to a request still means something: there was no reset since it was sent.
func (s *standing) counts(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number > s.since
}

// refuse takes in a 401.
func (s *standing) refuse(r refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful.Store(true)
	for i, before := range s.refused {
		if before.place == r.place {
			r.number = max(r.number, before.number)
			s.refused = slices.Delete(s.refused, i, i+1)
			break
		}
	}
	s.refused = append(s.refused, r)
	if len(s.refused) > enoughPlaces { // any three are enough, so the latest
		slices.SortFunc(s.refused, func(a, b refusal) int { return cmp.Compare(b.number, a.number) })
		s.refused = s.refused[:enoughPlaces]
	}
	if s.enough() {
		s.until = time.Now().Add(restTime)
	}
}

// takeBack forgets a 401 that was none.
func (s *standing) takeBack(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = slices.DeleteFunc(s.refused, func(r refusal) bool { return r.number == number })
}

// prove takes in a 401 to a request that succeeds with every Authorization that is valid.
func (s *standing) prove(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proof = max(s.proof, number)
	s.doubtful.Store(true)
}

// reset forgets what is known against the Authorization, and what answers to requests that are under way will say.
func (s *standing) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = s.sent.Load()
	s.succeed(s.since)
	s.refused, s.proof = nil, 0
	s.doubtful.Store(false)
}

package httpclient

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/routes"
)

// authorizationState is how an Authorization fares on a server. A 401 does not prove that it is not valid: it can be about a missing permission
// or scope, and some routes answer it to every bot. So it is counted against the Authorization only until a request succeeds that was
// sent after it, and two of different routes stop it as a whole.
//
// The order is that of sending: requests are numbered as they leave. What a request says that left before another one succeeded is
// out of date, also if its answer comes later.
type authorizationState struct {
	credentialID
	bot bool // the Authorization is a bot's

	sent     atomic.Uint64 // how many requests have left
	worked   atomic.Uint64 // the number of the latest that succeeded, or that was sent before a reset
	doubtful atomic.Bool   // something is known against it: nobody takes the lock otherwise

	mu      sync.Mutex
	refused [2]refusal // the latest 401s of two routes
	until   time.Time  // if both count, it rests until then
	proof   uint64     // the number of a 401 that proves that it is not valid, 0 if there is none
	since   uint64     // requests up to this number were sent before a reset
}

// refusal is the latest 401 of a route. The zero value is none.
type refusal struct {
	route  routes.Route
	number uint64
}

func newAuthorizationState(o credentialID, authorization string) *authorizationState {
	const prefix = "Bot "
	return &authorizationState{
		credentialID: o, bot: len(authorization) > len(prefix) && strings.EqualFold(authorization[:len(prefix)], prefix),
	}
}

// check returns the error for an Authorization that is stopped everywhere. There may be none at all.
func (s *authorizationState) check() *CredentialError {
	if s == nil || !s.doubtful.Load() {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	worked := s.worked.Load()
	err := &CredentialError{Status: 401, Everywhere: true}
	switch {
	case s.proof > worked:
		return err
	case s.enough() && s.until.After(now):
		err.RetryAfter = s.until.Sub(now)
		return err
	case max(s.refused[0].number, s.refused[1].number) <= worked:
		s.doubtful.Store(false)
	}
	return nil
}

// enough reports that the 401s stop the Authorization. The lock is held.
func (s *authorizationState) enough() bool {
	return min(s.refused[0].number, s.refused[1].number) > s.worked.Load()
}

// succeed takes in that the request of that number succeeded.
func (s *authorizationState) succeed(number uint64) {
	for {
		worked := s.worked.Load()
		if number <= worked || s.worked.CompareAndSwap(worked, number) {
			return
		}
	}
}

// counts reports that the answer to a request still means something: there was no reset since it was sent.
func (s *authorizationState) counts(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number > s.since
}

// refuse takes in a 401, and reports whether the Authorization is stopped by it.
func (s *authorizationState) refuse(r refusal) (stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtful.Store(true)
	latest := &s.refused[0]
	if second := &s.refused[1]; second.route == r.route || latest.route != r.route && second.number < latest.number {
		latest = second
	}
	if r.number > latest.number {
		*latest = r
	}
	if s.enough() {
		s.until = time.Now().Add(restTime)
		return true
	}
	return false
}

// prove takes in a 401 to a request that succeeds with every Authorization that is valid, and reports whether that stops it.
func (s *authorizationState) prove(number uint64) (stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proof = max(s.proof, number)
	s.doubtful.Store(true)
	return s.proof > s.worked.Load()
}

// reset forgets what is known against the Authorization, and what answers to requests that are under way will say.
func (s *authorizationState) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = s.sent.Load()
	s.succeed(s.since)
	s.refused, s.proof = [2]refusal{}, 0
	s.doubtful.Store(false)
}

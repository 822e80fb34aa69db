package shared

import (
	"context"
	"strconv"
	"time"
)

var beatScript = script("beat", "beat.lua")

// beat says that the session is alive, unless that is being said.
func (s *session) beat(ctx context.Context) {
	select {
	case s.agents.beating <- struct{}{}:
	default:
		return
	}
	_ = s.sendBeat(ctx)
	if s.eraOver() {
		_ = s.sendBeat(ctx)
	}
	<-s.agents.beating
}

// introduce says that the session is alive before anything else is said, so that the server's clock is known.
func (s *session) introduce() error {
	s.awake()
	if s.knowsEngine() {
		return nil
	}
	s.agents.beating <- struct{}{}
	defer func() { <-s.agents.beating }()
	if s.knowsEngine() {
		return nil
	}
	return s.sendBeat(s.context)
}

func (s *session) sendBeat(ctx context.Context) error {
	k := s.store.keys
	r, err := s.try(ctx, beatScript, []string{k.sessions(), k.wants(), k.era()}, s.aliveArguments(s.eraNumber(), s.id)...)
	if err == nil && (len(r.values) < 2 || !r.hasEra()) {
		err = errReply
	}
	if err != nil {
		return err
	}
	s.count(int(r.values[1]), r.sent)
	s.saw(&r)
	s.agents.mu.Lock()
	s.agents.beatAt = r.sent
	s.agents.mu.Unlock()
	for rest := r.values[2:]; len(rest) > 0 && rest[0] >= 0 && rest[0] < int64(len(rest)); rest = rest[1+rest[0]:] {
		if b := s.named(bytesOf(rest[1 : 1+rest[0]])); b != nil {
			b.want("")
		}
	}
	return nil
}

// aliveArguments adds for how long the session is alive from now on, until when the server knows already that it is, and the era.
func (s *session) aliveArguments(era int64, arguments ...string) []string {
	s.agents.mu.Lock()
	lease, lifetime := s.agents.lease, s.lifetime()
	s.agents.mu.Unlock()
	if lifetime < sessionTime {
		lease = 0 // its other calls may have said already that it closes
	}
	arguments = append(arguments, strconv.FormatInt(lifetime.Milliseconds(), 10), strconv.FormatInt(lease.Milliseconds(), 10))
	return s.eraArguments(era, arguments)
}

// count takes in how many sessions are alive, by a call that was begun at the given time.
func (s *session) count(live int, begun time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Fewer are believed after a while: a server that has just lost its state knows nobody else yet.
	if live >= s.live || begun-s.liveAt > 2*sessionTime {
		s.live, s.liveAt = max(live, 1), begun
	}
}

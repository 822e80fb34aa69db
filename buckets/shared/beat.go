package shared

import (
	"context"
	"strconv"
	"time"
)

var beatScript = script("beat", "beat.lua")

// beat reports that the session is alive, unless another beat is in progress.
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

// introduce sends a beat if the server's clock is not known, because other calls need that.
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

// aliveArguments appends the session's remaining lifetime, the time until which the server knows it to be alive, and
// the era.
func (s *session) aliveArguments(era int64, arguments ...string) []string {
	s.agents.mu.Lock()
	lease, lifetime := s.agents.lease, s.lifetime()
	s.agents.mu.Unlock()
	if lifetime < sessionTime {
		lease = 0 // its other calls may have reported already that it closes
	}
	arguments = append(arguments, strconv.FormatInt(lifetime.Milliseconds(), 10), strconv.FormatInt(lease.Milliseconds(), 10))
	return s.eraArguments(era, arguments)
}

// count records how many sessions are alive, as of a call that started at begun.
func (s *session) count(live int, begun time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A smaller number counts only after a while: a server that has just lost its state knows no other sessions yet.
	if live >= s.live || begun-s.liveAt > 2*sessionTime {
		s.live, s.liveAt = max(live, 1), begun
	}
}

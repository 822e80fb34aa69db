package shared

import "context"

// beat calls the server to show that the session is alive. If another beat is in progress, it does nothing.
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

// introduce sends a beat if the server's clock is not known, because calls for buckets need to know the clock.
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

// sendBeat shows the server that the session is alive, and asks which loans of this session other sessions need.
func (s *session) sendBeat(ctx context.Context) error {
	r, err := s.exchangeIn(ctx, "beat", s.eraNumber(), Step{Key: s.store.keys.wants(s.id)})
	if err != nil || r.anew {
		return err
	}
	s.agents.mu.Lock()
	s.agents.read = r.sent
	s.agents.mu.Unlock()
	s.wantLoans(r.values[0].Value, r.engine)
	return nil
}

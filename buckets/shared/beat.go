package shared

import (
	"context"
	"strconv"
	"strings"
)

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

// sendBeat reports that the session is alive, and asks which of its loans others need.
func (s *session) sendBeat(ctx context.Context) error {
	r, err := s.exchangeIn(ctx, "beat", s.eraNumber(), Step{Key: s.store.keys.wants(s.id)})
	if err != nil || r.anew {
		return err
	}
	s.wantLoans(r.values[0].Value)
	return nil
}

// wantsTime is how long the server stores which loans others need of a session.
const wantsTime = 2 * sessionTime

// wantLoans reads which loans of this session others need. The value has a line for each of them: the session that
// needs it, the version that was lent, and the name of the bucket.
func (s *session) wantLoans(value string) {
	_, list, _ := strings.Cut(value, " ")
	for line := range strings.Lines(list) {
		session, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		lent, name, _ := strings.Cut(rest, " ")
		if b := s.named(name); b != nil {
			b.want(session, lent)
		} else {
			s.spawn(func() { s.disown(name, lent) })
		}
	}
}

// disown ends a loan of a bucket that this session does not use any more: the server has gone back to a state in which
// it had the loan.
func (s *session) disown(name, lent string) {
	key, era := s.store.keys.name("b", name), s.eraNumber()
	r, err := s.exchange("swap", era, Step{Key: key})
	if err != nil || r.anew {
		return // the others ask again
	}
	state, err := decode(r.values[0].Value)
	if err != nil || state.version.String() != lent || state.owner != s.id {
		return
	}
	now := s.engineTime(s.now())
	state.restart(era, now)
	state.takeOver(now)
	state.version.number++
	_, _ = s.exchange("swap", era, Step{Key: key, Version: lent, Value: state.encode(), Life: keyTime + state.rest(now)})
}

// wantStep adds a loan to those that others need of its holder. known is the value that the server had last.
func (b *bucket) wantStep(number uint64, owner string, lent version, known string) Step {
	s := b.session
	line := s.id + " " + lent.String() + " " + b.name + "\n"
	_, list, _ := strings.Cut(known, " ")
	if !strings.Contains(list, line) {
		list += line
	}
	return Step{
		Key: s.store.keys.wants(owner), Version: versionOf(known),
		Value: s.id + "." + strconv.FormatUint(number, 10) + " " + list,
		Life:  wantsTime, Channels: []string{s.store.keys.channel(owner)}, Message: "want ",
	}
}

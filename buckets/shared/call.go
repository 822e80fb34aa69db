package shared

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
)

// errTooLate means that a call reached the server after its timeout and had no effect.
var errTooLate = errors.New("shared: the call reached the server after its timeout")

type reply struct {
	values         []Loaded // results of the caller's steps; none if anew
	anew           bool     // the era of the call is over
	sent, received time.Duration
	engine         time.Duration // when the call was carried out, by the server's clock
}

// exchange makes a call that also shows that the session is alive. The call has an effect only in the given era.
// exchange blocks for the call timeout at most, so it may be called only from a goroutine that spawn has started.
//
// During an outage exchange fails at once. Callers need not repeat calls to detect the end of the outage: the method
// probe makes such calls, and the method watch reports when the outage has ended.
func (s *session) exchange(purpose string, era int64, steps ...Step) (reply, error) {
	if err := s.outageErr(); err != nil {
		return reply{}, err
	}
	return s.exchangeIn(s.context, purpose, era, steps...)
}

// exchangeIn does the same as exchange, but calls the server even during a known outage.
func (s *session) exchangeIn(ctx context.Context, purpose string, era int64, steps ...Step) (r reply, err error) {
	call := &Call{Purpose: purpose}
	lease := s.liveIn(era, call)
	own := len(call.Steps)
	call.Steps = append(call.Steps, steps...)
	if r, err = s.try(ctx, call); err != nil {
		return r, err
	}
	if err = s.lived(call, &r, era, lease); err != nil {
		return r, err
	}
	if r.values = r.values[min(own, len(r.values)):]; !r.anew && len(r.values) != len(steps) {
		return r, errReply
	}
	for i, loaded := range r.values[:min(len(r.values), len(steps))] {
		if loaded.Replaced && steps[i].Value == "" {
			return r, errReply
		}
	}
	return r, nil
}

// try makes a call. It records the duration of the call, the server's clock, and the start or the end of an outage.
func (s *session) try(ctx context.Context, call *Call) (r reply, err error) {
	if err := s.endedErr(); err != nil {
		return r, err
	}
	timeout := s.store.options.callTimeout
	ctx, cancel := clockwork.WithTimeout(ctx, s.clock, timeout)
	defer cancel()
	r.sent = s.now()
	defer func() { s.meter.called(call.Purpose, r.received-r.sent, err) }()
	tells := s.tells(call)
	if tells && s.knowsEngine() {
		s.mu.Lock()
		if !s.era.over { // otherwise s.engine may be the clock of another era
			call.NotAfter = s.engine.earliest(r.sent + timeout)
		}
		s.mu.Unlock()
	}
	answer, err := s.store.engine.Exchange(ctx, call)
	r.received = s.now()
	if err != nil {
		return r, s.failed(r, err, tells)
	}
	r.values, r.engine = answer.Values, answer.Time
	s.came(r, tells)
	if answer.Late {
		return r, errTooLate
	}
	return r, nil
}

// tells reports whether a call shows that the server is available. A call with the key of WithAddress does not show
// this, because that key is in another slot than all other keys. So the key may be on another node, which has another
// clock.
func (s *session) tells(call *Call) bool {
	return strings.HasPrefix(call.Steps[0].Key, s.store.keys.prefix)
}

// came records that a call succeeded. If the server's clock was set since the last call, came sends a beat (a call that
// shows that the session is alive).
func (s *session) came(r reply, tells bool) {
	if !tells {
		return
	}
	s.awake() // first, because otherwise a suspension of this process would look like a step of the server's clock
	if s.tellClock(&r) {
		s.spawn(func() { s.beat(s.context) })
	}
	s.answered()
}

// returning is how long other sessions may take to notice the end of an outage and to report the buckets in use.
func (s *session) returning() time.Duration { return beatPeriod + s.store.options.callTimeout }

// spare prevents other sessions from counting as dead for a while, because after an outage or a loss every session
// needs time to call the server. It does so at most once in sessionTime, so that dead sessions are found even if the
// server fails again and again. s.mu must be held.
func (s *session) spare(now time.Duration) {
	if now >= s.spared+sessionTime || s.spared == 0 {
		s.spared = now + s.returning()
	}
}

// answered records that the server is available. If an outage has ended, answered reports that.
func (s *session) answered() {
	s.mu.Lock()
	since := s.outage.since
	ended := s.outage.end(s.now())
	if ended {
		s.spare(s.now())
		s.tell(Event{Kind: OutageEnded, After: s.now() - since})
	}
	s.mu.Unlock()
	if ended {
		s.tellWatchers()
		s.warnBack(since)
	}
}

// failed records that a call failed, and returns the error for the caller. If an outage has begun, failed reports that.
func (s *session) failed(r reply, err error, tells bool) error {
	if wrong := (*KeyError)(nil); errors.As(err, &wrong) {
		if tells {
			s.answered()
		}
		s.warnKey(wrong)
		return wrong
	}
	if errors.Is(err, errReply) {
		return err // the server is available, although its reply is malformed
	}
	if errors.Is(err, ErrClosed) {
		s.end(err)
		return err
	}
	if s.context.Err() != nil {
		return ErrClosed
	}
	if !tells {
		return err
	}
	s.mu.Lock()
	began := s.ended == nil && s.outage.failed(r.sent, r.received, err)
	if began {
		s.tell(Event{Kind: OutageBegan, Cause: err})
	}
	s.mu.Unlock()
	if began {
		s.spawn(s.probe)
		s.tellWatchers()
		s.warnOutage(err)
	}
	return err
}

// wrongKey logs that a key has a foreign value, and returns the error for it.
func (s *session) wrongKey(key, problem string) error {
	err := &KeyError{Key: key, Problem: problem}
	s.warnKey(err)
	return err
}

// end records that no further call can succeed, because the client of the server was closed.
func (s *session) end(err error) {
	s.mu.Lock()
	first := s.ended == nil
	if first {
		s.ended = err
		s.outage.end(s.now())
	}
	s.mu.Unlock()
	if first {
		s.tellWatchers()
	}
}

// endedErr returns why no further call can succeed, nil if calls can succeed.
func (s *session) endedErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// refusalErr returns the error with which all requests that need the server fail, nil if these requests may wait.
func (s *session) refusalErr() error {
	if err := s.endedErr(); err != nil {
		return err
	}
	if s.store.options.outage == OutageFail {
		return s.outageErr()
	}
	return nil
}

// probe calls the server again and again until the server is available.
func (s *session) probe() {
	for pause := firstProbe; ; pause = min(2*pause, longestProbe) {
		select {
		case <-s.listening.Done():
			return
		case <-s.clock.After(pause):
		}
		if away, _ := s.away(); !away {
			return
		}
		s.beat(s.context)
	}
}

// away reports whether the server is unavailable, and since when.
func (s *session) away() (away bool, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage.away, s.outage.since
}

// Outage returns an OutageError while the server is unavailable and requests have to wait for it, nil otherwise.
func (s *session) Outage() error {
	if s.store.options.outage >= OutageShare {
		return nil
	}
	return s.outageErr()
}

// outageErr returns the error of the current outage, nil if there is none.
func (s *session) outageErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.outage.away {
		return nil
	}
	return s.outageError()
}

func (s *session) outageError() *OutageError {
	return &OutageError{Since: s.origin.Add(s.outage.since), Policy: s.store.options.outage, Cause: s.outage.cause}
}

package shared

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
)

// errTooLate means that a call reached the server after its timeout and had no effect.
var errTooLate = errors.New("shared: the call reached the server after its timeout")

// reply is the reply of a script.
type reply struct {
	values         []int64
	sent, received time.Duration
	engine         time.Duration // when the script ran, by the server's clock
}

// call runs a script of this package. The script's first argument is the time after which it must do nothing
// (milliseconds of the server's clock, 0 for no such time). Its reply begins with 0, or -1 if it ran too late, and the
// server's time. call blocks for the call timeout at most; call it only from a goroutine started by spawn.
//
// During an outage it fails at once. failed detects outages here, and probe then calls the server, so callers need not
// repeat calls to find out; watch reports when the server is back.
func (s *session) call(script *Script, keys []string, arguments ...string) (reply, error) {
	s.mu.Lock()
	if s.outage.away {
		err := s.outageError()
		s.mu.Unlock()
		return reply{}, err
	}
	s.mu.Unlock()
	return s.try(s.context, script, keys, arguments...)
}

// try is call without the check for a known outage.
func (s *session) try(ctx context.Context, script *Script, keys []string, arguments ...string) (r reply, err error) {
	if err := s.endedErr(); err != nil {
		return r, err
	}
	timeout := s.store.options.callTimeout
	ctx, cancel := clockwork.WithTimeout(ctx, s.clock, timeout)
	defer cancel()
	r.sent = s.now()
	defer func() { s.meter.called(script.Name, r.received-r.sent, err) }()
	limit := int64(0)
	if s.tells(keys[0]) && s.knowsEngine() {
		s.mu.Lock()
		if !s.era.over { // otherwise engine may be the clock of another era
			limit = s.engine.earliest(r.sent + timeout).Milliseconds()
		}
		s.mu.Unlock()
	}
	all := make([]string, 1, 1+len(arguments))
	all[0] = strconv.FormatInt(limit, 10)
	values, err := s.store.runner.Run(ctx, script, keys, append(all, arguments...)...)
	r.received = s.now()
	if err == nil && len(values) < 2 {
		err = errors.New("shared: script " + script.Name + " sent an empty reply: do all processes use the same version?")
	}
	if err != nil {
		return r, s.failed(r, err, keys)
	}
	r.values, r.engine = values[2:], time.Duration(min(max(values[1], 0), forever.Microseconds()*10))*time.Microsecond
	s.came(r, s.tells(keys[0]))
	if values[0] < 0 {
		return r, errTooLate
	}
	return r, nil
}

// tells reports whether calls for a key show that the server is available. The key of an address does not: it is in
// another slot than all others, perhaps on another node, with another clock.
func (s *session) tells(key string) bool { return strings.HasPrefix(key, s.store.keys.prefix) }

// came records that a call succeeded.
func (s *session) came(r reply, tells bool) {
	if !tells {
		return
	}
	s.awake() // first: after a suspension of this process the server's clock would seem to have been set
	if s.tellClock(&r) {
		s.spawn(func() { s.beat(s.context) })
	}
	s.answered()
}

// answered records that the server is available, and reports the end of an outage.
func (s *session) answered() {
	s.mu.Lock()
	since := s.outage.since
	ended := s.outage.end(s.now())
	if ended {
		s.tell(Event{Kind: OutageEnded, After: s.now() - since})
	}
	s.mu.Unlock()
	if ended {
		s.tellWatchers()
		s.warnBack(since)
	}
}

// failed records that a call failed, and returns the error for its caller. It reports the start of an outage.
func (s *session) failed(r reply, err error, keys []string) error {
	if wrong := keyError(err, keys); wrong != nil {
		if s.tells(keys[0]) {
			s.answered()
		}
		s.warnKey(wrong)
		return wrong
	}
	if errors.Is(err, ErrClosed) {
		s.end(err)
		return err
	}
	if s.context.Err() != nil {
		return ErrClosed
	}
	if !s.tells(keys[0]) {
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

// end records that the server will never be reached again, because its client was closed.
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

// endedErr returns why the server will never be reached again, nil if it may be.
func (s *session) endedErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// refusalErr returns the error for all requests that need the server, nil if they may wait.
func (s *session) refusalErr() error {
	if err := s.endedErr(); err != nil {
		return err
	}
	if s.store.options.outage == OutageFail {
		return s.outageErr()
	}
	return nil
}

// probe calls the server until it is back.
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

// away reports whether the server is away, and since when.
func (s *session) away() (away bool, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage.away, s.outage.since
}

// Outage returns an OutageError while the server is away and requests have to wait for it, nil otherwise.
func (s *session) Outage() error {
	if s.store.options.outage >= OutageShare {
		return nil
	}
	return s.outageErr()
}

// outageErr returns the error of the outage, nil if there is none.
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

package shared

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
)

// errTooLate is the error of a call that got to the server after its time: it did nothing.
var errTooLate = errors.New("shared: the call reached the server after its timeout")

// reply is what a script returned.
type reply struct {
	values         []int64
	sent, received time.Duration
	engine         time.Duration // when it ran, by the server's clock
}

// call runs a script that is written for it: its first argument is when it is too late (milliseconds of the server, 0 if
// that does not matter), and its reply begins with 0, or -1 if it was too late, and the server's time. It blocks for the call
// timeout at most; call it from what was spawned.
//
// During an outage it fails at once. Outages are noticed here, and nobody else needs to repeat calls for that; watch
// tells when the server is back.
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

// try is call without the look at what is known of an outage.
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
		if !s.era.over { // else it may be that of another clock
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

// tells reports that calls about a key say whether the server is there. That of the address is in another slot than all others,
// perhaps on another node, with another clock.
func (s *session) tells(key string) bool { return strings.HasPrefix(key, s.store.keys.prefix) }

// came takes in that a call got through.
func (s *session) came(r reply, tells bool) {
	if !tells {
		return
	}
	s.awake() // else it would seem that the server's clock was set
	if s.tellClock(&r) {
		s.spawn(func() { s.beat(s.context) })
	}
	s.answered()
}

// answered takes in that the server is there.
func (s *session) answered() {
	s.mu.Lock()
	since := s.outage.since
	ended := s.outage.end(s.now())
	if ended {
		s.tell(buckets.SharedEvent{Kind: buckets.OutageEnded, After: s.now() - since})
	}
	s.mu.Unlock()
	if ended {
		s.tellWatchers()
		s.warnBack(since)
	}
}

// failed takes in that a call did not, and returns the error for whoever made it.
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
		s.tell(buckets.SharedEvent{Kind: buckets.OutageBegan, Cause: err})
	}
	s.mu.Unlock()
	if began {
		s.spawn(s.probe)
		s.tellWatchers()
		s.warnOutage(err)
	}
	return err
}

// end takes in that the server will never be reached again, because its client was closed.
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

// refusalErr returns what everybody who needs the server is refused with, nil if they may wait.
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

// Outage returns an OutageError while the server is away, and those who need it have to wait for it.
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

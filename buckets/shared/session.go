package shared

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// sessionTime is how long the others believe in a session that says nothing.
	sessionTime = 3 * time.Second
	// beatPeriod is how often a session says that it is alive.
	beatPeriod = time.Second
)

var (
	// errTooLate is the error of a call that got to the server after its time: it did nothing.
	errTooLate = errors.New("shared: call came too late")
	errClosed  = errors.New("shared: session is closed")
)

// session is one manager on the server.
type session struct {
	store  *Store
	id     string
	clock  clockwork.Clock
	origin time.Time

	context context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	engine   engineClock
	outage   outage
	live     int
	tickers  map[*ticker]struct{}
	timer    clockwork.Timer // of the next tick, nil if there is nothing to tick
	watchers map[*watcher]struct{}
	topics   map[string]func(rest string)
	agents   agents
	parts    parts
}

type (
	ticker  struct{ tick func() }
	watcher struct{ changed func() }
)

func newSession(store *Store, clock clockwork.Clock, origin time.Time) *session {
	s := &session{
		store: store, id: newSessionID(), clock: clock, origin: origin, live: 1,
		tickers: map[*ticker]struct{}{}, watchers: map[*watcher]struct{}{}, topics: map[string]func(string){},
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.startAgents()
	s.startParts()
	if store.subscriber != nil {
		s.spawn(func() {
			// It ends with the session. Should it end before, the timers do without.
			_ = store.subscriber.Subscribe(s.context, store.keys.channel(s.id), s.received)
		})
	}
	return s
}

// Credential returns what stands for an Authorization header in all processes of the application.
func (s *session) Credential(authorization string) string { return s.store.keys.hidden(authorization) }

// Close ends the session.
func (s *session) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	if !closed {
		s.closeParts()
		s.closeAgents()
		s.cancel()
	}
	s.running.Wait()
}

// now returns the time since the origin.
func (s *session) now() time.Duration { return s.clock.Since(s.origin) }

// spawn runs f in a goroutine for which Close waits. It reports false, and does nothing, once the session is closed.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// reply is what a script returned.
type reply struct {
	values         []int64
	sent, received time.Duration
	engine         int64 // milliseconds
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
func (s *session) try(ctx context.Context, script *Script, keys []string, arguments ...string) (reply, error) {
	timeout := s.store.options.callTimeout
	ctx, cancel := clockwork.WithTimeout(ctx, s.clock, timeout)
	defer cancel()
	r := reply{sent: s.now()}
	s.mu.Lock()
	limit := s.engine.earliest(r.sent + timeout)
	s.mu.Unlock()
	all := make([]string, 1, 1+len(arguments))
	all[0] = strconv.FormatInt(limit, 10)
	values, err := s.store.runner.Run(ctx, script, keys, append(all, arguments...)...)
	r.received = s.now()
	if err == nil && len(values) < 2 {
		err = errors.New("shared: script " + script.Name + " replied nothing: is it another version?")
	}
	if err != nil {
		return r, s.failed(r, err, keys)
	}
	r.values, r.engine = values[2:], values[1]
	s.came(r)
	if values[0] < 0 {
		return r, errTooLate
	}
	return r, nil
}

// came takes in that a call got through.
func (s *session) came(r reply) {
	s.mu.Lock()
	s.engine.tell(r.sent, r.received, r.engine)
	ended := s.outage.succeeded()
	s.mu.Unlock()
	if ended {
		s.tellWatchers()
	}
}

// failed takes in that a call did not, and returns the error for whoever made it.
func (s *session) failed(r reply, err error, keys []string) error {
	if wrong := keyError(err, keys); wrong != nil {
		s.mu.Lock()
		ended := s.outage.succeeded() // the server is there
		s.mu.Unlock()
		if ended {
			s.tellWatchers()
		}
		return wrong
	}
	if s.context.Err() != nil {
		return errClosed
	}
	s.mu.Lock()
	began := s.outage.failed(r.sent, r.received, err)
	s.mu.Unlock()
	if began {
		s.spawn(s.probe)
		s.tellWatchers()
	}
	return err
}

// probe calls the server until it is back.
func (s *session) probe() {
	for pause := firstProbe; ; pause = min(2*pause, longestProbe) {
		select {
		case <-s.context.Done():
			return
		case <-s.clock.After(pause):
		}
		if away, _ := s.away(); !away {
			return
		}
		s.beatOnce(s.context)
	}
}

// away reports whether the server is away, and since when.
func (s *session) away() (away bool, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage.away, s.outage.since
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

// sessions returns how many sessions are alive, as far as is known, this one included.
func (s *session) sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// engineTime returns a time of the server that is certainly not later than t, 0 if its clock is not known yet.
func (s *session) engineTime(t time.Duration) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.earliest(t)
}

// eachSecond calls tick in a goroutine of its own about once a second from now on, until stop is called or the session is closed. Ticks
// of the same ticker may overlap if one takes longer.
func (s *session) eachSecond(tick func()) (stop func()) {
	t := &ticker{tick}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickers[t] = struct{}{}
	s.schedule()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tickers, t)
	}
}

// schedule sets the timer of the next tick unless it is set. s.mu is held.
func (s *session) schedule() {
	if s.timer == nil && !s.closed && len(s.tickers) > 0 {
		s.timer = s.clock.AfterFunc(beatPeriod, s.tick)
	}
}

func (s *session) tick() {
	s.mu.Lock()
	s.timer = nil
	ticks := make([]func(), 0, len(s.tickers))
	for t := range s.tickers {
		ticks = append(ticks, t.tick)
	}
	s.schedule()
	s.mu.Unlock()
	for _, tick := range ticks {
		s.spawn(tick)
	}
}

// watch calls changed, from a goroutine of the session, when an outage begins and when it ends, until stop is called.
func (s *session) watch(changed func()) (stop func()) {
	w := &watcher{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, w)
	}
}

func (s *session) tellWatchers() {
	s.mu.Lock()
	all := make([]func(), 0, len(s.watchers))
	for w := range s.watchers {
		all = append(all, w.changed)
	}
	s.mu.Unlock()
	s.spawn(func() {
		for _, changed := range all {
			changed()
		}
	})
}

// listen calls received for the messages to this session that begin with the topic and a space, with what follows. There is
// one listener of a topic. received is called from a goroutine of the session and must not block.
func (s *session) listen(topic string, received func(rest string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[topic] = received
}

func (s *session) received(message string) {
	topic, rest, _ := strings.Cut(message, " ")
	s.mu.Lock()
	f := s.topics[topic]
	if s.closed {
		f = nil
	}
	s.mu.Unlock()
	if f != nil {
		f(rest)
	}
}

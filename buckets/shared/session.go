package shared

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"
)

const (
	// sessionTime is how long a session counts as alive after its latest call.
	sessionTime = 3 * time.Second
	// beatPeriod is the time between two beats: calls that a session makes to show that it is alive.
	beatPeriod = time.Second
)

// session is one manager's use of a Store.
type session struct {
	store  *Store
	id     string
	clock  clockwork.Clock
	origin time.Time

	context   context.Context // of the session's calls
	cancel    context.CancelFunc
	listening context.Context // of goroutines that wait for messages or for the end of an outage
	deafen    context.CancelFunc
	running   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	engine   engineClock
	spared   time.Duration // before this time no other session counts as dead
	era      era
	events   events
	ahead    time.Duration // wall clock minus monotonic clock, both since the origin, at the latest call of awake
	naps     int           // number of suspensions of this process so far
	napAt    time.Duration // when the latest suspension was noticed
	outage   outage
	ended    error // why no further call can succeed, nil if calls can succeed
	tickers  map[*ticker]struct{}
	timer    clockwork.Timer // of the next tick, nil if there are no tickers
	watchers map[*watcher]struct{}
	topics   map[string]func(rest string)
	agents   agents
	parts    parts
	warnings warnings
	meter    meter
}

type (
	ticker  struct{ tick func() }
	watcher struct{ changed func() }
)

func newSession(store *Store, clock clockwork.Clock, origin time.Time) *session {
	s := &session{
		store: store, id: newSessionID(), clock: clock, origin: origin,
		tickers: map[*ticker]struct{}{}, watchers: map[*watcher]struct{}{}, topics: map[string]func(string){},
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.listening, s.deafen = context.WithCancel(s.context)
	s.startAgents()
	s.startParts()
	if store.subscriber != nil {
		s.spawn(func() {
			// If Subscribe returns early, the session continues without messages, by its timers.
			if err := store.subscriber.Subscribe(s.listening, store.keys.channel(s.id), s.received); errors.Is(err, ErrClosed) {
				s.end(err)
			}
		})
	}
	return s
}

// Credential returns a keyed hash of an Authorization header. The hash is the same in all processes of the application.
func (s *session) Credential(authorization string) string { return s.store.keys.hidden(authorization) }

// lastCallsTime bounds the total time of the calls that report the remaining news when a session ends.
const lastCallsTime = 900 * time.Millisecond

// Close reports the remaining news and ends the session. For the other sessions, the requests of this session that are
// in flight count as in flight for travelTime, and then as lost.
func (s *session) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	if closed {
		s.running.Wait()
		return
	}
	last := s.clock.AfterFunc(lastCallsTime, s.cancel)
	defer last.Stop()
	s.store.forget(s)
	s.deafen()
	s.running.Wait() // after this no goroutine makes calls
	s.closeParts()
	s.closeAgents()
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage.end(s.now())
}

func (s *session) now() time.Duration { return s.clock.Since(s.origin) }

// spawn runs f in a goroutine that Close waits for. It does nothing and returns false once the session is closed.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Go(f)
	return true
}

// awake checks whether the process was suspended, for example because its machine was: while the monotonic clock stood
// still, the wall clock went on. awake returns the number of suspensions so far. A step of the wall clock also counts
// as a suspension. Permits and loans from before a suspension may belong to other sessions now.
func (s *session) awake() int {
	ahead := s.clock.Now().Round(0).Sub(s.origin.Round(0)) - s.now() // Round(0) removes the monotonic clock
	s.mu.Lock()
	defer s.mu.Unlock()
	// After a suspension, measure the server's clock again. Otherwise it would seem to have been set.
	if (ahead - s.ahead).Abs() > stepSlack {
		s.naps++
		s.meter.count(&s.meter.counted.Suspensions)
		s.tell(Event{Kind: ProcessSuspended})
		s.napAt = s.now()
		s.engine.known, s.engine.set = false, s.napAt // keep low and high, which are right for earlier times
	}
	s.ahead = ahead
	return s.naps
}

// sentTime returns a time by the server's clock that is certainly not later than t by ours, at which a request was
// sent. The result is right even if this process was suspended after t.
func (s *session) sentTime(t time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.naps > 0 && t <= s.napAt {
		return 0
	}
	return s.engine.earliest(t)
}

// engineTime returns a time by the server's clock that is certainly not later than t by ours.
func (s *session) engineTime(t time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.earliest(t)
}

// engineTimeOf returns the result of engineTime. It returns false if the given era is over, because the times of that
// era are then by another clock.
func (s *session) engineTimeOf(era int64, t time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.earliest(t), s.era.number == era
}

// engineLatest returns a time by the server's clock that is certainly not earlier than t by ours.
func (s *session) engineLatest(t time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.latest(t)
}

// offset returns the bounds of the server's time minus ours.
func (s *session) offset() (low, high time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.low, s.engine.high
}

// knowsEngine reports whether the server's clock is known with sufficient precision.
func (s *session) knowsEngine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.known && s.now() < s.engine.at+clockMemory
}

// travelTime bounds the time after which a request that was sent reaches Discord, if it ever does.
const travelTime = time.Second

// lifetime returns how long the session counts as alive after a call that starts now.
func (s *session) lifetime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return travelTime
	}
	return sessionTime
}

// sessions returns how many sessions share a global limit, as far as is known, including this one.
func (s *session) sessions() int {
	n := 1
	globals, _ := s.parts.all()
	for _, g := range globals {
		n = max(n, int(g.users.Load()))
	}
	return n
}

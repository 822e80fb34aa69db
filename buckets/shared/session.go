package shared

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/ratelight/ratelight/buckets"
)

const (
	// sessionTime is how long the others believe in a session that says nothing.
	sessionTime = 3 * time.Second
	// beatPeriod is how often a session says that it is alive.
	beatPeriod = time.Second
)

// session is one manager on the server.
type session struct {
	store  *Store
	id     string
	clock  clockwork.Clock
	origin time.Time

	context   context.Context // of calls
	cancel    context.CancelFunc
	listening context.Context // of what waits for something to happen
	deafen    context.CancelFunc
	running   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	engine   engineClock
	era      era
	events   events
	ahead    time.Duration // how far the wall clock is ahead of the one that times are measured by, since the origin
	naps     int           // how often the latter stood still
	napAt    time.Duration // when it last did
	outage   outage
	ended    error         // why there will be no more calls
	live     int           // sessions, this one included
	liveAt   time.Duration // when there were last as many
	tickers  map[*ticker]struct{}
	timer    clockwork.Timer // of the next tick, nil if there is nothing to tick
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
		store: store, id: newSessionID(), clock: clock, origin: origin, live: 1,
		tickers: map[*ticker]struct{}{}, watchers: map[*watcher]struct{}{}, topics: map[string]func(string){},
	}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.listening, s.deafen = context.WithCancel(s.context)
	s.startAgents()
	s.startParts()
	if store.subscriber != nil {
		s.spawn(func() {
			// It ends with the session. Should it end before, the timers do without.
			if err := store.subscriber.Subscribe(s.listening, store.keys.channel(s.id), s.received); errors.Is(err, ErrClosed) {
				s.end(err)
			}
		})
	}
	return s
}

// Credential returns what stands for an Authorization header in all processes of the application.
func (s *session) Credential(authorization string) string { return s.store.keys.hidden(authorization) }

// lastCallsTime is how long it may take to say all that there is to say when a session ends.
const lastCallsTime = 900 * time.Millisecond

// Close ends the session. The others know then what it has used and what is in flight, which they believe in for a session's time.
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
	s.running.Wait() // nothing else is said from now on
	s.closeParts()
	s.closeAgents()
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage.end(s.now())
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

// awake finds out whether our clock has stood still, as that of a machine does that was suspended, and returns how often it has. Whoever
// relied on it then may have used what belongs to others by now.
func (s *session) awake() int {
	ahead := s.clock.Now().Round(0).Sub(s.origin.Round(0)) - s.now() // Round(0) leaves the wall clock
	s.mu.Lock()
	defer s.mu.Unlock()
	if ahead > s.ahead+stepSlack { // else it would seem that the server's clock was set
		s.naps++
		s.meter.count(&s.meter.counted.Suspensions)
		s.tell(buckets.SharedEvent{Kind: buckets.ProcessSuspended})
		s.napAt = s.now()
		s.engine.known, s.engine.set = false, s.napAt // what it was still holds for times before
	}
	s.ahead = ahead
	return s.naps
}

// sentTime is a time of the server's that is certainly not later than when a request was sent at t of ours.
func (s *session) sentTime(t time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.naps > 0 && t <= s.napAt {
		return 0
	}
	return s.engine.earliest(t)
}

// engineTime returns a time of the server's that is certainly not later than t of ours.
func (s *session) engineTime(t time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.earliest(t)
}

// engineTimeOf is engineTime as long as the era lasts, and false when another one has begun: then nothing shows the clock of that one.
func (s *session) engineTimeOf(era int64, t time.Duration) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.earliest(t), s.era.number == era
}

// engineLatest returns a time of the server's that is certainly not earlier than t of ours.
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

// knowsEngine reports that the server's clock is known well enough.
func (s *session) knowsEngine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine.known && s.now() < s.engine.at+clockMemory
}

// travelTime is how long after it was sent a request has certainly got to Discord, if it ever does.
const travelTime = time.Second

// lifetime is for how long the others believe in the session from now on.
func (s *session) lifetime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return travelTime
	}
	return sessionTime
}

// sessions returns how many sessions are alive, as far as is known, this one included.
func (s *session) sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

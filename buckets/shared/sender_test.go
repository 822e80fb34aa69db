package shared_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/ratelight/ratelight/buckets/shared"
	"github.com/ratelight/ratelight/ratelimits"
)

// realClock is the clock of the bubble.
var realClock = clockwork.NewRealClock()

// stage is a server of shared limits with sessions on it, in the time of a bubble.
type stage struct {
	t      *testing.T
	memory server
	store  *shared.Store
	origin time.Time
}

func onStage(t *testing.T, test func(f *stage), options ...shared.Option) {
	synctest.Test(t, func(t *testing.T) {
		memory := newServer()
		defer memory.Close()
		store, err := shared.New(memory, options...)
		require.NoError(t, err)
		test(&stage{t, memory, store, time.Now()})
	})
}

func (f *stage) now() time.Duration { return time.Since(f.origin) }

func (f *stage) join() shared.Session {
	return f.store.Join(realClock, f.origin)
}

// sender uses its part of a global limit as a manager does: it sends as fast as the part allows.
type sender struct {
	stage   *stage
	session shared.Session
	global  shared.Global
	limit   int
	trip    time.Duration

	mu    sync.Mutex
	pacer *ratelimits.Global
	queue int
	sent  []time.Duration
	timer *time.Timer
	ended bool
}

func (f *stage) sender(limit int) *sender { return f.senderOf(f.join(), limit) }

func (f *stage) senderOf(session shared.Session, limit int) *sender {
	s := &sender{stage: f, session: session, limit: limit, trip: 20 * time.Millisecond, pacer: ratelimits.NewGlobal(min(limit, 1))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.global = session.Global("bot", limit, s.changed)
	return s
}

// linked returns a sender whose connection to the server can be cut.
func (f *stage) linked(limit int) (*sender, *wire) {
	l := &wire{server: f.memory}
	store, err := shared.New(l)
	require.NoError(f.t, err)
	return f.senderOf(store.Join(realClock, f.origin), limit), l
}

func (s *sender) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serve()
}

// send adds n requests, which leave as soon as they may.
func (s *sender) send(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.queue++
		s.serve()
	}
}

func (s *sender) serve() {
	for s.queue > 0 && !s.ended {
		now := s.stage.now()
		s.pacer.Hold(now, s.global.HoldWait(now))
		part, until := s.global.Part(now)
		if s.limit > 0 && (part <= 0 || now >= until) {
			s.need(now, 0)
			return
		}
		if s.limit > 0 {
			s.pacer.Resize(part)
		}
		slot, wait := s.pacer.Take(now)
		if wait > 0 {
			s.need(now, 0)
			if s.timer != nil {
				s.timer.Stop()
			}
			s.timer = time.AfterFunc(wait, s.changed)
			return
		}
		s.queue--
		s.need(now, 1)
		s.sent = append(s.sent, now)
		time.AfterFunc(s.trip, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pacer.Report(s.stage.now(), slot)
			s.serve()
		})
	}
}

func (s *sender) need(now time.Duration, leaving int) {
	if s.limit > 0 {
		s.global.Need(now, s.queue, leaving)
	}
}

func (s *sender) part() int {
	now := s.stage.now()
	part, until := s.global.Part(now)
	if now >= until {
		return 0
	}
	return part
}

func (s *sender) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue
}

// end stops all sending, and ends the session.
func (s *sender) end() {
	s.mu.Lock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.session.Close()
	time.Sleep(time.Second) // for the answers
}

package spectacles

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// global is one process's fixed part of the global limit. A global 429 of any process stops all processes.
type global struct {
	session *session
	part    int
	changed func()
}

// certain is how long a part is valid: longer than any request waits.
const certain = 24 * time.Hour

// Global implements shared.Session. All credentials share their holds, because the server has only one key for them.
func (s *session) Global(_ string, limit int, changed func()) shared.Global {
	g := &global{session: s, changed: changed}
	if limit > 0 {
		g.part = max(limit/s.store.processes, 1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.globals[g] = struct{}{}
	return g
}

func (g *global) Part(now time.Duration) (int, time.Duration) { return g.part, now + certain }

func (g *global) Need(time.Duration, int, int) {}

func (g *global) HoldWait(now time.Duration) time.Duration {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	return max(g.session.heldTo-now, 0)
}

func (g *global) Hold(now, d time.Duration) {
	if g.session.holdGlobal(now + d) {
		g.session.spawn(func() { g.session.tellHold(now + d) })
	}
}

func (g *global) Err() error { return nil }

func (g *global) Close() {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	delete(g.session.globals, g)
}

// holdGlobal extends the hold of the global limit. It returns false if the hold already lasts at least as long.
func (s *session) holdGlobal(until time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until <= s.heldTo {
		return false
	}
	s.heldTo = until
	return true
}

// sawHold is holdGlobal for a hold on the server. It notifies the users of the global limit.
func (s *session) sawHold(until time.Duration) {
	const rounding = 2 * time.Millisecond // each reply repeats the same hold, rounded
	if !s.holdGlobal(until - rounding) {
		return
	}
	s.holdGlobal(until)
	s.mu.Lock()
	tell := make([]func(), 0, len(s.globals))
	for g := range s.globals {
		tell = append(tell, g.changed)
	}
	s.mu.Unlock()
	for _, changed := range tell {
		if changed != nil {
			changed()
		}
	}
}

// tellHold reports a hold to the server, and repeats the call until it succeeds or the hold is over.
func (s *session) tellHold(until time.Duration) {
	for {
		wait := until - s.now()
		if wait <= 0 {
			return
		}
		_, err := s.call(holdScript, []string{s.store.globalKey()}, strconv.FormatInt(ceilMillis(wait), 10))
		if err == nil {
			return
		}
		select {
		case <-s.clock.After(firstPause):
		case <-s.context.Done():
			return
		}
	}
}

// ceilMillis rounds up to milliseconds.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

package spectacles

import (
	"strconv"
	"time"

	"github.com/ratelight/ratelight/buckets/shared"
)

// global is this process's part of the global limit, which does not change. A global 429 in one process stops all
// processes.
type global struct {
	session *session
	part    int
	changed func()
}

// certain is how long a part is valid. No request waits for so long.
const certain = 24 * time.Hour

// Global implements shared.Session. A hold applies to all credentials, because the server has only one key for holds.
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

// holdGlobal extends the hold of the global limit. It returns false if the hold already lasts until the given time or
// longer.
func (s *session) holdGlobal(until time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until <= s.heldTo {
		return false
	}
	s.heldTo = until
	return true
}

// sawHold records a hold that the server has. If the hold was extended, sawHold notifies all users of the global limit.
func (s *session) sawHold(until time.Duration) {
	const rounding = 2 * time.Millisecond // each reply contains the rest of the hold, rounded
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

// tellHold reports a hold to the server. It repeats the call until the call succeeds or the hold has ended.
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

// ceilMillis returns a duration in milliseconds, rounded up.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

package fleet_test

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// Most methods in this file are troubles (simulated faults) of a play. Such a method is called when the play begins. It
// draws the times of its events, and returns at once.

// at calls a function after the given time, unless the play is over at that time.
func (s *stage) at(after time.Duration, do func()) { s.during(after, 0, do) }

// during is like at, for a function that begins a trouble of the given length.
func (s *stage) during(after, lasts time.Duration, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.timers = append(s.timers, time.AfterFunc(after, func() {
		s.mu.Lock()
		if s.over {
			s.mu.Unlock()
			return
		}
		s.work.Add(1)
		s.mu.Unlock()
		defer s.work.Done()
		s.happens(lasts)
		do()
	}))
}

// happens records that a trouble of the given length begins now.
func (s *stage) happens(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, interval{s.Now(), s.Now() + lasts})
}

// within draws a duration between two bounds.
func (s *stage) within(least, most time.Duration) time.Duration {
	return least + time.Duration(s.trouble.Int64N(int64(max(most-least, 1))))
}

// times draws the times of an event, at most the given number, and calls do with each.
func (s *stage) times(most int, do func(at time.Duration)) {
	for range 1 + s.trouble.IntN(most) {
		do(s.within(300*time.Millisecond, s.length))
	}
}

// loses records that the engine now loses state. The text says what happens to the engine.
func (s *stage) loses(format string, arguments ...any) {
	s.mu.Lock()
	s.lost = append(s.lost, s.Now())
	s.mu.Unlock()
	s.Note("THE ENGINE "+format, arguments...)
}

// flushes makes the engine lose all of its keys.
func (s *stage) flushes() {
	s.times(3, func(at time.Duration) {
		s.at(at, func() {
			s.loses("forgets all of its %d keys", len(s.Engine.Keys()))
			s.Engine.Flush()
		})
	})
}

// rollbacks makes the engine go back to an earlier state, as after a restart from an old file, or when a replica with
// an old state takes over. In half of the cases the engine is down for some time before.
func (s *stage) rollbacks() {
	s.times(3, func(at time.Duration) {
		age, down := s.within(20*time.Millisecond, min(at, 3*time.Second+2*s.quota.Period)), time.Duration(0)
		if s.trouble.IntN(2) == 0 {
			down = s.within(50*time.Millisecond, 3*time.Second)
		}
		s.goesBack(at-age, at, down)
	})
}

// oldRollback makes the engine go back to a state that was saved before some processes were replaced, long ago.
func (s *stage) oldRollback() {
	at := s.within(time.Second, 4*time.Second)
	s.goesBack(at, at+sessionTime+longestUnknown+time.Second, 500*time.Millisecond)
	for place := range s.scene.places / 2 {
		s.at(at+time.Millisecond, func() { s.kill(place, 0) })
	}
}

// goesBack saves the engine's state at the time to. At the time from the engine goes down for the duration down, and
// then it continues with the saved state.
func (s *stage) goesBack(to, from, down time.Duration) {
	snapshot := make(chan memoryengine.Snapshot, 1)
	s.at(to, func() { snapshot <- s.Engine.Save() })
	if down > 0 {
		s.during(from, down, func() {
			s.Note("the engine is down")
			s.Engine.SetDown(true)
		})
	}
	s.at(from+down, func() {
		changes := s.Engine.Restore(<-snapshot)
		s.loses("goes back by %v: %s", from+down-to, strings.Join(changes, ", "))
		s.Engine.SetDown(false)
	})
}

// evictions makes the engine lose single keys.
func (s *stage) evictions() {
	if s.declares != nil {
		s.declares.memory = 65 * time.Second // a process may notice the loss only when it returns a loan
	}
	s.times(6, func(at time.Duration) {
		n := s.trouble.Int()
		s.at(at, func() {
			keys := s.Engine.Keys()
			if len(keys) == 0 {
				return
			}
			key := keys[n%len(keys)]
			s.Engine.Evict(key)
			s.loses("evicts %q", key)
		})
	})
}

// outages makes the engine unreachable for some time. The engine keeps its state.
func (s *stage) outages() {
	s.times(2, func(at time.Duration) {
		frozen, length := s.trouble.IntN(2) == 0, s.within(50*time.Millisecond, 8*time.Second)
		set := s.Engine.SetDown
		if frozen {
			set = s.Engine.SetFrozen
		}
		s.during(at, length, func() {
			s.Note("the engine is away (frozen %v)", frozen)
			set(true)
		})
		s.at(at+length, func() {
			s.Note("the engine is back")
			set(false)
		})
	})
}

// cuts breaks the connections of single processes to the engine for some time.
func (s *stage) cuts() {
	s.times(3, func(at time.Duration) {
		place, length := s.trouble.IntN(s.scene.places), s.within(50*time.Millisecond, 10*time.Second)
		s.during(at, length, func() {
			if p := s.process(place); p != nil {
				p.Cut(true)
				s.at(length, func() { p.Cut(false) })
			}
		})
	})
}

// steps sets the engine's clock forward or back, as in a fail-over to another machine. Such a step counts as a loss of
// state.
func (s *stage) steps(sign time.Duration) {
	s.times(2, func(at time.Duration) {
		all := []time.Duration{300 * time.Millisecond, 2 * time.Second, 5 * time.Second, time.Minute, time.Hour}
		d := sign * all[s.trouble.IntN(len(all))]
		s.at(at, func() {
			s.loses("steps its clock by %v", d)
			s.Engine.StepClock(d)
		})
	})
}

// close closes a process. It records the buckets whose first request the process has in flight, because the limits of
// these buckets stay unknown.
func (s *stage) close(p *fleet.Process) error {
	s.mu.Lock()
	for _, path := range s.FirstsInFlight(p) {
		s.cutOff[path]++
	}
	s.mu.Unlock()
	return p.Close()
}

// machineSteps sets back the clock of the engine and the wall clocks of all processes, as if all of them ran on one
// machine.
func (s *stage) machineSteps() {
	s.times(2, func(at time.Duration) {
		d := []time.Duration{300 * time.Millisecond, 2 * time.Second, time.Minute, time.Hour}[s.trouble.IntN(4)]
		s.at(at, func() {
			s.loses("and all processes step their clocks by %v", -d)
			s.Engine.StepClock(-d)
			for place := range s.scene.places {
				if p := s.process(place); p != nil {
					p.StepClock(-d)
				}
			}
		})
	})
}

// suspensions suspends single processes for some time. If clockStands is set, their monotonic clocks stand still.
func (s *stage) suspensions(clockStands bool) {
	s.times(3, func(at time.Duration) {
		place, length := s.trouble.IntN(s.scene.places), s.within(100*time.Millisecond, 15*time.Second)
		s.during(at, length, func() {
			if p := s.process(place); p != nil {
				s.count(func(t *tally) { t.suspended++ })
				p.Suspend(clockStands)
				s.at(length, p.Resume)
			}
		})
	})
}

// wallClocks sets the wall clocks of single processes forward or back.
func (s *stage) wallClocks() {
	s.times(4, func(at time.Duration) {
		place, d := s.trouble.IntN(s.scene.places), s.within(-time.Minute, time.Minute)
		s.at(at, func() {
			if p := s.process(place); p != nil {
				p.StepClock(d)
			}
		})
	})
}

// deaths kills processes, and replaces each of them at once or some time later.
func (s *stage) deaths() {
	s.times(3, func(at time.Duration) {
		place, later := s.trouble.IntN(s.scene.places), s.absence()
		s.at(at, func() { s.kill(place, later) })
	})
}

// deathsAfterBursts kills and replaces processes soon after they have sent a burst, which may have used up a window.
func (s *stage) deathsAfterBursts() {
	left := 1 + s.trouble.IntN(4)
	var moments, absences []time.Duration
	for range left {
		moments, absences = append(moments, s.within(0, s.length/2)), append(absences, s.absence())
	}
	s.killing.Lock()
	defer s.killing.Unlock()
	s.burstEnds = func(place int) {
		n := len(moments) - left
		if left == 0 || s.Now() < moments[n] {
			return
		}
		left--
		s.at(s.latency*time.Duration(n)/4, func() { s.kill(place, absences[n]) })
	}
}

// absence draws the time until a new process takes the place of a dead one.
func (s *stage) absence() time.Duration {
	return []time.Duration{0, 0, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}[s.trouble.IntN(5)]
}

// burstEnded calls burstEnds, if it is set, for a place whose process has sent a burst.
func (s *stage) burstEnded(place int) {
	s.killing.Lock()
	defer s.killing.Unlock()
	if s.burstEnds != nil {
		s.burstEnds(place)
	}
}

// kill kills the process of a place. A new process replaces it after the duration later.
func (s *stage) kill(place int, later time.Duration) {
	p := s.process(place)
	if p == nil {
		return
	}
	s.count(func(t *tally) { t.dead++ })
	s.happens(max(longestUnknown-s.quota.Period, 0))
	p.Kill()
	if later == 0 {
		s.replace(place)
		return
	}
	s.put(place, nil)
	s.at(later, func() { s.replace(place) })
}

// process returns the process of a place, nil if there is none.
func (s *stage) process(place int) *fleet.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[place]
}

// put gives a place to a process. If p is nil, the place is empty.
func (s *stage) put(place int, p *fleet.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[place] = p
}

// replace starts a new process and gives it a place.
func (s *stage) replace(place int) {
	s.joining.Lock()
	defer s.joining.Unlock()
	p, err := s.Join()
	if err != nil {
		s.blame("", "join: %v", err)
		return
	}
	s.put(place, p)
}

// rolling replaces one process after the other, as a deployment does. In some plays the new process starts before the
// old one ends, in others after the end of the old one. The old process is closed or shut down.
func (s *stage) rolling() {
	first, pause := s.within(time.Second, s.length/3), s.within(100*time.Millisecond, s.length/8)
	overlap, end := s.trouble.IntN(2) == 0, s.close
	if s.trouble.IntN(2) == 0 {
		end = (*fleet.Process).Shutdown
	}
	for place := range s.scene.places {
		s.at(first+time.Duration(place)*pause, func() {
			old := s.process(place)
			if old == nil {
				return
			}
			s.count(func(t *tally) { t.closed++ })
			if overlap {
				s.replace(place)
			} else {
				s.put(place, nil)
			}
			if err := end(old); err != nil {
				s.blame("", "close: %v", err)
			}
			if !overlap {
				s.replace(place)
			}
		})
	}
}

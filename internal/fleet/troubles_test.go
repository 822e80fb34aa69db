package fleet_test

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// The methods in this file are what can happen to a play. Each is called before the play begins, draws when it happens,
// and returns at once.

// at lets something happen after so much of the play, unless that is over.
func (s *stage) at(after time.Duration, do func()) { s.during(after, 0, do) }

// during lets something begin after so much of the play that lasts so long, unless that is over.
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

// happens notes that there is trouble, which lasts so long.
func (s *stage) happens(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, interval{s.Now(), s.Now() + lasts})
}

// within draws a duration.
func (s *stage) within(least, most time.Duration) time.Duration {
	return least + time.Duration(s.trouble.Int64N(int64(max(most-least, 1))))
}

// times draws how often something happens, and when.
func (s *stage) times(most int, do func(at time.Duration)) {
	for range 1 + s.trouble.IntN(most) {
		do(s.within(300*time.Millisecond, s.length))
	}
}

// loses counts that the engine loses its state.
func (s *stage) loses(format string, arguments ...any) {
	s.mu.Lock()
	s.lost = append(s.lost, s.Now())
	s.mu.Unlock()
	s.Note("THE ENGINE "+format, arguments...)
}

// flushes: the engine forgets everything.
func (s *stage) flushes() {
	s.times(3, func(at time.Duration) {
		s.at(at, func() {
			s.loses("forgets all of its %d keys", len(s.Engine.Keys()))
			s.Engine.Flush()
		})
	})
}

// rollbacks: the engine goes back to what it kept some time ago, as one that starts again from an old file; or a
// replica takes over after a while in which nobody answers, and was behind.
func (s *stage) rollbacks() {
	s.times(3, func(at time.Duration) {
		age, down := s.within(20*time.Millisecond, min(at, 3*time.Second+2*s.quota.Period)), time.Duration(0)
		if s.trouble.IntN(2) == 0 {
			down = s.within(50*time.Millisecond, 3*time.Second)
		}
		s.goesBack(at-age, at, down)
	})
}

// oldRollback: the engine goes back to what it kept when processes lived that have been replaced long since.
func (s *stage) oldRollback() {
	at := s.within(time.Second, 4*time.Second)
	s.goesBack(at, at+sessionTime+longestUnknown+time.Second, 500*time.Millisecond)
	for place := range s.scene.places / 2 {
		s.at(at+time.Millisecond, func() { s.kill(place, 0) })
	}
}

// goesBack lets the engine be down from some moment on, if it is for any time, and then go back to what it kept before.
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

// evictions: single keys vanish.
func (s *stage) evictions() {
	if s.declares != nil {
		s.declares.memory = 65 * time.Second // who has a limit for himself does not notice before he returns it
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

// outages: the engine is away for a while, and keeps its state.
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

// cuts: processes lose their connection to the engine for a while.
func (s *stage) cuts() {
	s.times(3, func(at time.Duration) {
		place, length := s.trouble.IntN(s.scene.places), s.within(50*time.Millisecond, 10*time.Second)
		s.during(at, length, func() {
			if p := s.who(place); p != nil {
				p.Cut(true)
				s.at(length, func() { p.Cut(false) })
			}
		})
	})
}

// steps: the engine's clock steps, as in a fail-over to another machine. What it keeps is worth as much as what it
// would have lost.
func (s *stage) steps(sign time.Duration) {
	s.times(2, func(at time.Duration) {
		d := sign * []time.Duration{300 * time.Millisecond, 2 * time.Second, 5 * time.Second, time.Minute, time.Hour}[s.trouble.IntN(5)]
		s.at(at, func() {
			s.loses("steps its clock by %v", d)
			s.Engine.StepClock(d)
		})
	})
}

// close closes a process, and notes the buckets whose first request it has in flight: their limits stay unknown.
func (s *stage) close(p *fleet.Process) error {
	s.mu.Lock()
	for _, path := range s.FirstsInFlight(p) {
		s.cutOff[path]++
	}
	s.mu.Unlock()
	return p.Close()
}

// machineSteps: the clock of the machine on which the engine and all processes run steps back.
func (s *stage) machineSteps() {
	s.times(2, func(at time.Duration) {
		d := []time.Duration{300 * time.Millisecond, 2 * time.Second, time.Minute, time.Hour}[s.trouble.IntN(4)]
		s.at(at, func() {
			s.loses("and all processes step their clocks by %v", -d)
			s.Engine.StepClock(-d)
			for place := range s.scene.places {
				if p := s.who(place); p != nil {
					p.StepClock(-d)
				}
			}
		})
	})
}

// suspensions: processes stand still for a while, and so do their monotonic clocks, or not.
func (s *stage) suspensions(clockStands bool) {
	s.times(3, func(at time.Duration) {
		place, length := s.trouble.IntN(s.scene.places), s.within(100*time.Millisecond, 15*time.Second)
		s.during(at, length, func() {
			if p := s.who(place); p != nil {
				s.count(func(t *tally) { t.suspended++ })
				p.Suspend(clockStands)
				s.at(length, p.Resume)
			}
		})
	})
}

// wallClocks: those of processes step.
func (s *stage) wallClocks() {
	s.times(4, func(at time.Duration) {
		place, d := s.trouble.IntN(s.scene.places), s.within(-time.Minute, time.Minute)
		s.at(at, func() {
			if p := s.who(place); p != nil {
				p.StepClock(d)
			}
		})
	})
}

// deaths: processes are killed, and others take their places at once or later.
func (s *stage) deaths() {
	s.times(3, func(at time.Duration) {
		place, later := s.trouble.IntN(s.scene.places), s.absence()
		s.at(at, func() { s.kill(place, later) })
	})
}

// murders: the same, right after a process has used up what was left of a window.
func (s *stage) murders() {
	left := 1 + s.trouble.IntN(4)
	var moments, absences []time.Duration
	for range left {
		moments, absences = append(moments, s.within(0, s.length/2)), append(absences, s.absence())
	}
	s.killing.Lock()
	defer s.killing.Unlock()
	s.avenger = func(place int) {
		n := len(moments) - left
		if left == 0 || s.Now() < moments[n] {
			return
		}
		left--
		s.at(s.latency*time.Duration(n)/4, func() { s.kill(place, absences[n]) })
	}
}

// absence is how long it takes until somebody takes the place of a process.
func (s *stage) absence() time.Duration {
	return []time.Duration{0, 0, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}[s.trouble.IntN(5)]
}

// avenge tells that a burst of the process of a place is over.
func (s *stage) avenge(place int) {
	s.killing.Lock()
	defer s.killing.Unlock()
	if s.avenger != nil {
		s.avenger(place)
	}
}

// kill kills the process of a place, and lets another have the place later.
func (s *stage) kill(place int, later time.Duration) {
	p := s.who(place)
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

func (s *stage) who(place int) *fleet.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[place]
}

func (s *stage) put(place int, p *fleet.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[place] = p
}

// replace starts a process, and gives it the place.
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

// rolling: each process is closed or shut down, and replaced by a new one, in turn, as a deployment does it. The new
// one starts before that, or afterwards.
func (s *stage) rolling() {
	first, pause := s.within(time.Second, s.length/3), s.within(100*time.Millisecond, s.length/8)
	overlap, end := s.trouble.IntN(2) == 0, s.close
	if s.trouble.IntN(2) == 0 {
		end = (*fleet.Process).Shutdown
	}
	for place := range s.scene.places {
		s.at(first+time.Duration(place)*pause, func() {
			old := s.who(place)
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

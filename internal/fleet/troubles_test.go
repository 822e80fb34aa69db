package fleet_test

import (
	"strings"
	"time"

	"github.com/ratelight/ratelight/internal/fleet"
	"github.com/ratelight/ratelight/internal/memoryengine"
)

// The methods in this file plan what can happen during a run. Each is called before the run begins, draws when the
// event happens, and returns at once.

// at calls do when the run has lasted for the given time, unless the run is over.
func (s *stage) at(after time.Duration, do func()) { s.during(after, 0, do) }

// during calls do when the run has lasted for the time after, unless the run is over. do begins a trouble of length
// lasts.
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

// happens records a trouble that begins now and has the given length.
func (s *stage) happens(lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append(s.troubles, interval{s.Now(), s.Now() + lasts})
}

// within draws a duration.
func (s *stage) within(least, most time.Duration) time.Duration {
	return least + time.Duration(s.trouble.Int64N(int64(max(most-least, 1))))
}

// times draws how often something happens, up to most times, and calls do with each time at which it happens.
func (s *stage) times(most int, do func(at time.Duration)) {
	for range 1 + s.trouble.IntN(most) {
		do(s.within(300*time.Millisecond, s.length))
	}
}

// loses records that the engine loses state, or that its clock steps.
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

// rollbacks: the engine returns to an older state. It does so at once, like a server that starts from an old file, or
// after an outage, like a replica that was behind.
func (s *stage) rollbacks() {
	s.times(3, func(at time.Duration) {
		age, down := s.within(20*time.Millisecond, min(at, 3*time.Second+2*s.quota.Period)), time.Duration(0)
		if s.trouble.IntN(2) == 0 {
			down = s.within(50*time.Millisecond, 3*time.Second)
		}
		s.goesBack(at-age, at, down)
	})
}

// oldRollback: the engine returns to a state from before processes were replaced.
func (s *stage) oldRollback() {
	at := s.within(time.Second, 4*time.Second)
	s.goesBack(at, at+sessionTime+longestUnknown+time.Second, 500*time.Millisecond)
	for place := range s.scene.places / 2 {
		s.at(at+time.Millisecond, func() { s.kill(place, 0) })
	}
}

// goesBack makes the engine unavailable at from, for the time down, and then returns it to its state at the time to.
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

// evictions: the engine evicts single keys.
func (s *stage) evictions() {
	if s.declares != nil {
		s.declares.memory = 65 * time.Second // a process with a loan notices the eviction only when it returns the loan
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

// outages: the engine is down or frozen for a while, and keeps its state.
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

// steps: the engine's clock steps, as in a fail-over to another machine. This counts as a loss of state, because the
// times in the state are wrong then.
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

// suspensions: processes are suspended for a while. If clockStands is true, their monotonic clocks stand still.
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

// wallClocks: the wall clocks of processes step.
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

// deaths: processes are killed, and other processes take their places at once or later.
func (s *stage) deaths() {
	s.times(3, func(at time.Duration) {
		place, later := s.trouble.IntN(s.scene.places), s.absence()
		s.at(at, func() { s.kill(place, later) })
	})
}

// murders: like deaths, but a process is killed right after it has used up the rest of a window.
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

// absence draws how long it takes until another process takes the place of a killed process.
func (s *stage) absence() time.Duration {
	return []time.Duration{0, 0, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}[s.trouble.IntN(5)]
}

// avenge is called when the process of a place has ended a burst; with murders, it may kill the process.
func (s *stage) avenge(place int) {
	s.killing.Lock()
	defer s.killing.Unlock()
	if s.avenger != nil {
		s.avenger(place)
	}
}

// kill kills the process of a place, and starts another process there after the time later.
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

// replace starts a process at a place.
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

// rolling: each process in turn is closed or shut down, and replaced by a new process, as in a deployment. The new
// process starts before the old one ends, or afterwards.
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

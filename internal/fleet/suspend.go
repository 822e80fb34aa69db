package fleet

import "time"

// Suspend stops the process as it stands, until Resume: its timers do not fire, what comes from others waits, and nothing is sent. What has
// left is on its way. Its monotonic clock stands still meanwhile, as on a suspended machine and in a virtual one that goes on from a snapshot, or it
// goes on, as for a program that was stopped by a signal. Its wall clock goes on.
func (p *Process) Suspend(clockStands bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.suspended != nil || p.dead {
		return
	}
	p.suspended = make(chan struct{})
	p.clock.freeze(clockStands)
	if clockStands {
		p.fleet.Note("process %d is suspended, and its monotonic clock stands still", p.Number)
	} else {
		p.fleet.Note("process %d is stopped, and its clock goes on", p.Number)
	}
}

// Resume lets the process go on.
func (p *Process) Resume() {
	p.mu.Lock()
	if p.suspended == nil {
		p.mu.Unlock()
		return
	}
	p.fleet.Note("process %d goes on", p.Number)
	p.clock.thaw()
	close(p.suspended)
	p.suspended = nil
	backlog := p.backlog
	p.backlog = nil
	p.mu.Unlock()
	for _, message := range backlog {
		message()
	}
}

// Suspended reports that it stands still.
func (p *Process) Suspended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspended != nil
}

// StepClock steps the process's wall clock.
func (p *Process) StepClock(d time.Duration) {
	p.fleet.Note("the wall clock of process %d steps by %v", p.Number, d)
	p.clock.step(d)
}

// awake waits until the process is not suspended.
func (p *Process) awake() {
	for {
		p.mu.Lock()
		suspended := p.suspended
		p.mu.Unlock()
		if suspended == nil {
			return
		}
		<-suspended
	}
}

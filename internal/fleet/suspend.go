package fleet

import "time"

// Suspend stops the process until Resume: its timers do not fire, messages of other processes are kept for later, and
// nothing is sent. Requests that have left are still processed. If clockStands is set, the process's monotonic clock
// stands still meanwhile, as on a suspended machine, or in a virtual machine that continues from a snapshot. Otherwise
// that clock goes on, as for a program that a signal has stopped. The wall clock always goes on.
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

// Resume continues the process.
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

// Suspended reports whether the process is suspended.
func (p *Process) Suspended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspended != nil
}

// StepClock steps the process's wall clock by d.
func (p *Process) StepClock(d time.Duration) {
	p.fleet.Note("the wall clock of process %d steps by %v", p.Number, d)
	p.clock.step(d)
}

// awake waits while the process is suspended.
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

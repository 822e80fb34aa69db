package fleet

import "time"

// Suspend stops the process until Resume: its timers do not fire, messages from others wait, and nothing is sent.
// Requests that have left are on their way. Meanwhile its monotonic clock stands still, as on a suspended machine and
// in a virtual machine that continues from a snapshot. Or it goes on, as for a program that was stopped by a signal.
// Its wall clock goes on.
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

package fleet

import "time"

// Suspend stops the process until Resume is called. Meanwhile the timers of the process do not fire, the process sends
// nothing, and messages from other processes wait. Requests that have left it are still processed. If clockStands is
// set, the process's monotonic clock stands still, as on a suspended machine, or in a virtual machine that later
// continues from a snapshot. Otherwise the monotonic clock goes on, as for a program that a signal has stopped. The
// wall clock goes on in both cases.
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

// StepClock sets the process's wall clock forward by d, or back if d is negative.
func (p *Process) StepClock(d time.Duration) {
	p.fleet.Note("the wall clock of process %d steps by %v", p.Number, d)
	p.clock.step(d)
}

// awake blocks while the process is suspended.
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

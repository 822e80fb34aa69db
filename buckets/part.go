package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// share links an authentication to those of other processes: each has a part of the global limit.
func (a *authentication) share(r *Request) {
	session := a.manager.session()
	if session == nil {
		return
	}
	a.mu.Lock() // others may have something to say at once
	defer a.mu.Unlock()
	text := r.Authorization
	if r.Server != "" {
		text = r.Server + " " + text
	}
	a.credential = session.Credential(text)
	limit := a.global.Limit()
	if limit > 0 {
		a.global = ratelimits.NewGlobal(1) // closed until there is a part
	}
	a.divided = limit > 0
	a.shared = session.Global(a.credential, limit, a.changed)
}

// follow takes over what part of the limit this process has now. It reports false if it has none. The lock is held.
func (a *authentication) follow(now time.Duration) bool {
	if a.shared == nil {
		return true
	}
	a.global.Hold(now, a.shared.HoldWait(now))
	if !a.divided {
		return true
	}
	part, until := a.shared.Part(now)
	if part <= 0 || now >= until {
		return false
	}
	if part != a.global.Limit() {
		a.global.Resize(part)
	}
	return true
}

// enter takes a permit, or returns how long to wait for one. known is false if only the others can tell, a refusal that is being read,
// or the outcome of the one that goes first. The lock is held.
func (a *authentication) enter(now time.Duration) (p globalPermit, wait time.Duration, known bool) {
	a.needs(now)
	if a.reading > 0 || a.probing || !a.follow(now) {
		return globalPermit{}, 0, false
	}
	if p.slot, wait = a.global.Take(now); wait == 0 {
		p.probe = a.refusals.Row() > 1
		a.probing = p.probe
	}
	return p, wait, true
}

// partWait returns how long it will be until there is a part of the limit, 0 if there is one or that is not known. The lock is held.
func (a *authentication) partWait(now time.Duration) time.Duration {
	if !a.divided {
		return 0
	}
	part, until := a.shared.Part(now)
	if part > 0 {
		return 0
	}
	return max(until-now, 0)
}

// needs says how much of the limit is needed. The lock is held.
func (a *authentication) needs(now time.Duration) {
	if a.divided {
		a.asked = true
		a.shared.Need(now, a.line.waiting+1)
	}
}

// most returns how many requests a second may leave at most: a part of the limit follows what is needed of it. The lock is held.
func (a *authentication) most() int {
	if a.divided {
		return a.manager.settings.globalLimit
	}
	return a.global.Limit()
}

// hears reports that the others have been heard of since a part of the limit was needed first.
func (a *authentication) hears() bool {
	if a.shared == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.divided || a.heard
}

// changed is called when there is something new to say of the limit.
func (a *authentication) changed() {
	a.mu.Lock()
	now := a.manager.now()
	held := a.global.HoldWait(now)
	if a.shared.HoldWait(now) > 0 {
		a.open.Store(false)
	}
	closed := !a.follow(now)
	longer := a.global.HoldWait(now) > held
	first := a.asked && !a.heard
	a.heard = a.heard || first
	a.mu.Unlock()
	if longer {
		a.manager.refuseLate(a)
	}
	if closed {
		a.refuseClosed(now)
	}
	if a.serve(); first {
		a.manager.refuseLate(a) // those who do not wait
	}
}

// refuseClosed refuses those who wait for a part that does not come, and have waited longer than they may, or will have when it comes, or
// must not wait for it.
func (a *authentication) refuseClosed(now time.Duration) {
	err := a.outage(now)
	for b := range a.manager.buckets.all() {
		if b.family.authentication != a {
			continue
		}
		b.mu.Lock()
		if b.live != nil && b.inLine && b.lineOf == gate(a) {
			b.refuseOverdue(b.now())
			if b.refuseLate(b.now()); err != nil && b.queue != nil {
				b.refuseAll(err)
			}
		}
		b.mu.Unlock()
	}
}

// certain reports that what may be sent is known without the others.
func (a *authentication) certain(now time.Duration) bool {
	if a.shared == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.follow(now)
}

// outage returns what everybody who waits for the limit is to be told, if that is how it is when the others cannot be asked.
func (a *authentication) outage(now time.Duration) error {
	if a.shared == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.follow(now) {
		return nil
	}
	return a.shared.Err()
}

// part returns what is shared to those who need it, when the authentication is forgotten.
func (a *authentication) part() {
	if a.shared != nil {
		a.shared.Close()
	}
}

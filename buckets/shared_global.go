package buckets

import (
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

// globalPart is this process's part of a global limit that processes share, nil if they do not. The gate's lock guards it.
type globalPart struct {
	remote  SharedGlobal
	whole   int  // the limit that is divided
	divided bool // there is a limit, and not only holds
	asked   bool // for a part
	known   bool // of the others since
}

// connect links a gate to those of other processes: each has a part of the global limit.
func (g *gate) connect(session SharedSession) {
	g.mu.Lock() // others may have something to say at once
	defer g.mu.Unlock()
	limit := g.limit.Limit()
	if limit > 0 {
		g.limit = ratelimits.NewGlobal(1) // closed until there is a part
	}
	g.part = &globalPart{whole: limit, divided: limit > 0}
	g.part.remote = session.Global(g.authentication.credential, limit, g.changed)
}

// syncPart takes over what part of the limit this process has now. It reports false if it has none. The lock is held.
func (g *gate) syncPart(now time.Duration) bool {
	if g.part == nil {
		return true
	}
	g.limit.Hold(now, g.part.remote.HoldWait(now))
	if !g.part.divided {
		return true
	}
	part, until := g.part.remote.Part(now)
	if part <= 0 || now >= until {
		return false
	}
	if part != g.limit.Limit() {
		g.limit.Resize(part)
	}
	return true
}

// most returns how many requests a second may leave at most: a part of the limit follows what is needed of it. The lock is held.
func (g *gate) most() int {
	if g.part != nil && g.part.divided {
		return g.part.whole
	}
	return g.limit.Limit()
}

// needs says how much of the limit is needed.
func (p *globalPart) needs(now time.Duration, waiting, leaving int) {
	if p != nil && p.divided {
		p.asked = true
		p.remote.Need(now, waiting, leaving)
	}
}

// hold lets nothing leave in any process.
func (p *globalPart) hold(now, d time.Duration) {
	if p != nil {
		p.remote.Hold(now, d)
	}
}

// close returns what is shared to those who need it, when the gate is forgotten.
func (p *globalPart) close() {
	if p != nil {
		p.remote.Close()
	}
}

// partKnown reports that the others have been heard of since a part of the limit was needed first.
func (g *gate) partKnown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.part == nil || !g.part.divided || g.part.known
}

// changed is called when there is something new to say of the limit.
func (g *gate) changed() {
	g.mu.Lock()
	now := g.manager.now()
	held := g.limit.HoldWait(now)
	if g.part.remote.HoldWait(now) > 0 {
		g.open.Store(false)
	}
	closed := !g.syncPart(now)
	longer := g.limit.HoldWait(now) > held
	first := g.part.asked && !g.part.known
	g.mu.Unlock()
	if longer {
		g.noteHeld()
		g.rejectLate()
	}
	if closed {
		g.rejectWithoutPart(now)
	}
	if g.serve(); first { // it is known when those in line have been served
		g.mu.Lock()
		g.part.known = true
		g.mu.Unlock()
		g.rejectLate() // those who do not wait
	}
}

// certain reports that what may be sent is known without the others.
func (g *gate) certain(now time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.syncPart(now)
}

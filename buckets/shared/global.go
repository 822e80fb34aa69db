package shared

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// partTime is how long after the start of a call a session may use the part that the call confirmed. Other sessions
	// assume that the part is used for sessionTime. partTime is shorter, because the clocks of sessions may run at
	// different speeds.
	partTime = sessionTime * 9 / 10
	// globalPeriod is the second in "requests a second". A request counts for this time and the time of a round trip.
	globalPeriod = time.Second
	// globalIdle is how long a session without demand keeps its part.
	globalIdle = 10 * time.Second
	// listenPeriod is how often a session that has no global limit and receives messages renews its registration for
	// holds.
	listenPeriod = 30 * time.Second
	// firstRepeat is the pause after a failed call.
	firstRepeat = 50 * time.Millisecond
	// aloneFor is how long a part is valid if the process has taken it while the server is unavailable.
	aloneFor = time.Minute
)

// global is the global limit of one credential in a session. It asks the server for a part when requests need one, and
// loads the division once a second. If no limit is set, it only learns of holds. It makes one call at a time.
//
//	idle     the session has no part and no demand, and makes no calls
//	in use   from the first demand until ten seconds have passed without demand; if no limit is set, until the global is
//	         closed, because other processes may report holds at any time
//	closing  no caller uses the limit, but the server does not know that yet
type global struct {
	session    *session
	credential string

	mu      sync.Mutex
	limit   int
	changed func() // nil: no caller uses it
	demand  demand
	hold    ratelimits.Throttle
	tell    bool // whether the hold may have to be reported to the server
	asks    bool // whether a call is due that will report the current demand
	inUse   bool
	gone    bool // whether it was removed from the session's list
	out     bool // the server is away
	err     error
	calls   repeater

	users    atomic.Int64  // number of sessions that share the limit, as far as is known
	known    *division     // latest known division, nil if none is known
	cell     cell          // of the known division
	lost     bool          // whether the server has lost the division that this session last knew
	fades    bool          // whether the server will soon delete the division because its life ends
	courtesy time.Duration // delay before a smaller part is reported, so that sessions without a part call first
	fresh    bool          // whether the division was loaded just now, so that a second call at once is not needed
	knownAt  time.Duration
	part     int // number of requests a second that the manager may send
	until    time.Duration
	lowered  bool          // whether the server does not know yet that the part shrank
	alone    bool          // whether the process took the part while the server was away
	at       time.Duration // start of the latest call that confirmed the part
	naps     int           // number of suspensions of this process that the method wake has handled
	comes    time.Duration // if there is no part: when one may become available, 0 if not known
	dead     []string      // users of the known division that the latest call found dead
	lookedAt time.Duration // when a call last asked whether all other users are alive
	nextEnd  time.Duration // when the next other user counts as dead unless it makes a call
	failing  bool          // whether the latest call failed
}

func (s *session) Global(credential string, limit int, changed func()) Global {
	for {
		g := s.parts.global(s, credential)
		g.mu.Lock()
		if g.gone {
			g.mu.Unlock()
			continue
		}
		defer g.mu.Unlock()
		g.limit, g.changed = max(limit, 0), changed
		if g.limit == 0 { // other processes may report holds at any time, even without demand here
			g.use()
		}
		return &partOf{global: g}
	}
}

func newGlobal(s *session, credential string, out bool) *global {
	g := &global{session: s, credential: credential, cell: cell{key: s.store.keys.name("g", credential)}, out: out}
	g.calls = repeater{session: s, lock: &g.mu, once: g.once}
	return g
}

// partOf is one caller's use of a global limit. Only the first call of Close has an effect, because another caller may
// use the limit after that.
type partOf struct {
	*global
	once sync.Once
}

// Close ends the caller's use, and gives the part back to the other processes.
func (p *partOf) Close() { p.once.Do(p.leave) }

// Part implements Global.
func (g *global) Part(now time.Duration) (part int, until time.Duration) {
	naps := g.session.awake()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake(naps, now)
	switch {
	case g.limit == 0:
		return 0, 0
	case g.out && now >= g.until:
		if part = g.withoutServer(); part > 0 {
			return part, now + aloneFor
		}
	}
	if g.lapse(now); g.part == 0 {
		return 0, g.comes
	}
	return g.part, g.until
}

// wake ends the part if this process was suspended. g.mu must be held.
func (g *global) wake(naps int, now time.Duration) {
	if g.naps != naps {
		g.naps, g.until = naps, min(g.until, now)
	}
}

// lapse removes a part whose time has ended. g.mu must be held.
func (g *global) lapse(now time.Duration) {
	if now >= g.until {
		g.part, g.lowered, g.alone = 0, false, false
	}
}

// withoutServer returns the part that the outage policy allows this process while the server is unavailable.
func (g *global) withoutServer() int {
	switch g.session.store.options.outage {
	case OutageShare:
		return max(g.limit/g.session.sessions(), 1)
	case OutageFull:
		return g.limit
	default:
		return 0
	}
}

// Need implements Global.
func (g *global) Need(now time.Duration, waiting, leaving int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		return
	}
	g.demand.take(now, waiting, leaving)
	if !g.inUse {
		g.use()
		return
	}
	// The first call of a burst may have reported only the first request. So report a higher demand at once if the part
	// does not suffice. However, if the reported demand already exceeds the part, report again only if the demand has more
	// than doubled.
	told, held, need := g.demand.told, g.part, min(g.demand.need(now), g.limit)
	if !g.out && !g.asks && need > held && (told <= held || need > 2*told) {
		g.asks = true
		g.calls.call()
	}
}

// HoldWait returns how much longer the hold lasts.
func (g *global) HoldWait(now time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hold.Wait(now)
}

// Hold holds the requests of all processes for d from now on.
func (g *global) Hold(now, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != nil && g.hold.Extend(now, min(d, ratelimits.LongestTrust)) {
		g.tell = true
		g.use()
	}
}

// Err returns why the process gets no part, nil if requests may wait for a part.
func (g *global) Err() error {
	g.mu.Lock()
	err, out := g.err, g.out && g.session.now() >= g.until
	g.mu.Unlock()
	if ended := g.session.endedErr(); ended != nil {
		return ended
	}
	if err == nil && out {
		return g.session.refusalErr()
	}
	return err
}

// leave ends the caller's use, and starts a call that gives the part back.
func (g *global) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = nil
	if g.inUse {
		g.calls.call()
	} else {
		g.forget()
	}
}

// forget removes the limit from the session's list. g.mu must be held.
func (g *global) forget() {
	g.gone = true
	g.session.parts.forget(g)
}

// use starts the calls. g.mu must be held.
func (g *global) use() {
	g.inUse, g.asks = true, true
	g.calls.call()
}

// urge makes a call at once if the limit is in use.
func (g *global) urge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse {
		g.calls.call()
	}
}

// watch records the start and the end of an outage.
func (g *global) watch() {
	g.mu.Lock()
	now := g.session.now()
	out, _ := g.session.away() // the call of watch may be late, so read the current state
	if g.inUse && g.out && !out && now >= g.until {
		if part := g.withoutServer(); part > 0 { // keep this part until the next reply arrives
			g.part, g.alone, g.until = part, true, now+2*g.session.store.options.callTimeout
		}
	}
	g.out = out
	changed := g.changed
	g.mu.Unlock()
	if changed != nil {
		changed()
	}
	g.urge()
}

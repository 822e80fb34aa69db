package shared

import (
	"sync"
	"time"

	"github.com/ratelight/ratelight/buckets"
	"github.com/ratelight/ratelight/ratelimits"
)

const (
	// globalPeriod is the second of "requests a second": for so long, and for a round trip, what was sent counts.
	globalPeriod = time.Second
	// globalIdle is how long nobody needs a part before it is given back.
	globalIdle = 10 * time.Second
	// listenPeriod is how often a session without a limit says that it wants to hear of holds, if it hears messages.
	listenPeriod = 10 * time.Second
	// firstRepeat is how long after a call of no success the next one comes.
	firstRepeat = 50 * time.Millisecond
	// aloneFor is for how long at least a part is certain that nobody else can take away.
	aloneFor = time.Minute
)

var partScript = script("part", "part.lua")

// global is the global limit of one credential in a session: it asks the server for a part when one is needed, and once a second
// while it is, or every ten seconds if there is nothing but messages of holds to wait for. There is at most one call at a time.
//
//	away     nothing is held, nobody needs anything; no calls
//	in use   from the first need on, until there was none for ten seconds; without a limit as long as there is a user, as
//	         holds come from others at any time
//	closing  nobody uses it any more, which the server does not know yet
type global struct {
	session    *session
	credential string
	keys       []string

	mu      sync.Mutex
	limit   int
	changed func() // nil: nobody uses it
	holding holding
	naps    int // of our clock that are known here
	demand  demand
	hold    ratelimits.Throttle
	tell    bool // the server may not know of the hold
	asks    bool // a call is to be made that says what is needed by then
	inUse   bool
	gone    bool // forgotten: the session has another one for the credential, or none
	out     bool // the server is away
	err     error
	calls   repeater
}

// Global returns the global limit of a credential.
func (s *session) Global(credential string, limit int, changed func()) buckets.SharedGlobal {
	for {
		g := s.parts.global(s, credential)
		g.mu.Lock()
		if g.gone {
			g.mu.Unlock()
			continue
		}
		defer g.mu.Unlock()
		g.limit, g.changed = max(limit, 0), changed
		if g.limit == 0 { // holds come from others at any time
			g.use()
		}
		return &partOf{global: g}
	}
}

func newGlobal(s *session, credential string, out bool) *global {
	g := &global{session: s, credential: credential, keys: []string{s.store.keys.name("g", credential)}, out: out}
	g.holding = holding{cooling: globalPeriod + s.store.options.trip, timeout: s.store.options.callTimeout}
	g.calls = repeater{session: s, lock: &g.mu, once: g.once}
	return g
}

// partOf is a global limit in the hands of one caller. After Close it does nothing, while the limit may have another one.
type partOf struct {
	*global
	once sync.Once
}

// Close gives the part back.
func (p *partOf) Close() { p.once.Do(p.leave) }

// Part returns how many requests a second may be sent, and until when; with none, when that may change.
func (g *global) Part(now time.Duration) (part int, until time.Duration) {
	naps := g.session.awake()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.naps != naps {
		g.naps = naps
		g.holding.void(now)
	}
	return g.part(now)
}

func (g *global) part(now time.Duration) (part int, until time.Duration) {
	switch {
	case g.limit == 0:
		return 0, 0
	case g.out && now >= g.holding.until:
		if part = g.alone(); part > 0 {
			return part, now + aloneFor
		}
	}
	g.holding.lapse(now)
	if g.holding.part == 0 {
		return 0, g.holding.comes
	}
	return g.holding.part, g.holding.until
}

// alone returns what is used while nobody can be asked.
func (g *global) alone() int {
	switch g.session.store.options.outage {
	case OutageShare:
		users := g.holding.users
		if users == 0 {
			users = g.session.sessions()
		}
		return max(g.limit/max(users, 1), 1)
	case OutageFull:
		return g.limit
	default:
		return 0
	}
}

// Need says how many requests wait for a slot, and how many leave.
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
	// More than the server was told of is urgent if what is held is not enough, and what was told of was, or is far less: of a burst the
	// first call may have told of the first request only.
	told, held, need := g.demand.told, g.holding.part, min(g.demand.need(now), g.limit)
	if !g.asks && need > held && (told <= held || need > 2*told) {
		g.asks = true
		g.calls.call()
	}
}

// HoldWait returns how long everything is held back.
func (g *global) HoldWait(now time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hold.Wait(now)
}

// Hold holds everything back in all processes.
func (g *global) Hold(now, d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed != nil && g.hold.Extend(now, min(d, ratelimits.LongestTrust)) {
		g.tell = true
		g.use()
	}
}

// Err returns why nothing is granted.
func (g *global) Err() error {
	g.mu.Lock()
	err, out := g.err, g.out && g.session.now() >= g.holding.until
	g.mu.Unlock()
	if ended := g.session.endedErr(); ended != nil {
		return ended
	}
	if err == nil && out {
		return g.session.refusalErr()
	}
	return err
}

// leave gives the part back.
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

// forget drops what nobody uses any more. g.mu is held.
func (g *global) forget() {
	g.gone = true
	g.session.parts.forget(g)
}

// use begins to call the server. g.mu is held.
func (g *global) use() {
	g.inUse, g.asks = true, true
	g.calls.call()
}

// urge calls the server because it has something to say.
func (g *global) urge() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse {
		g.calls.call()
	}
}

// watch takes in that an outage began or ended.
func (g *global) watch() {
	g.mu.Lock()
	now := g.session.now()
	out, _ := g.session.away() // by now
	if g.inUse && g.out && !out && now >= g.holding.until {
		if part := g.alone(); part > 0 {
			g.holding.adopt(now, part)
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

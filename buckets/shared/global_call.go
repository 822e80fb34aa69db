package shared

import (
	"errors"
	"strconv"
	"time"
)

// once makes one call, and returns the wait until the next one.
func (g *global) once() time.Duration {
	g.mu.Lock()
	if !g.inUse {
		g.mu.Unlock()
		return never
	}
	s, arguments, leaving := g.say()
	g.mu.Unlock()
	reply, err := g.session.call(partScript, g.keys, arguments...)
	g.mu.Lock()
	wait := g.heard(s, leaving, reply, err)
	changed := g.changed
	g.mu.Unlock()
	if changed != nil {
		// When this returns, no request uses the old part any more, and the server may learn of a smaller one.
		changed()
	}
	return wait
}

// say returns what the next call reports. g.mu must be held.
func (g *global) say() (s saying, arguments []string, leaving bool) {
	session := g.session
	now := session.now()
	s = g.holding.say(now, session.parts.number.Add(1))
	g.asks = false
	need := g.demand.tell(now, g.holding.part, g.limit)
	idle := g.limit > 0 && need == 0 && now-g.demand.last >= globalIdle && g.hold.Wait(now) == 0
	leaving = g.changed == nil || idle
	if leaving {
		s.peak = max(s.peak, s.has)
		s.has, g.holding.part = 0, 0
		need = 0
	}
	var hold time.Duration
	if g.tell {
		hold = g.hold.Wait(now)
	}
	arguments = s.arguments(session.id, g.limit, need, hold, leaving)
	return s, append(arguments, number(sessionTime), number(g.holding.cooling), session.store.keys.channel(""), "global "+g.credential), leaving
}

// number returns a time in milliseconds, rounded up, as scripts expect it.
func number(d time.Duration) string { return strconv.FormatInt(ceilMillis(d), 10) }

// heard records the result of a call, and returns the wait until the next one. g.mu must be held.
func (g *global) heard(s saying, leaving bool, r reply, err error) (wait time.Duration) {
	now := g.session.now()
	answer, ok := newPartAnswer(r.values)
	if err == nil && !ok {
		err = errors.New("shared: the reply of script part is too short: do all processes use the same version?")
	}
	if err != nil {
		return g.failed(now, leaving, err)
	}
	g.err = nil
	answer.part = min(max(answer.part, 0), g.limit)
	if answer.stale {
		g.holding.answer(s, r.sent, r.engine.Milliseconds(), answer)
		return 0
	}
	if leaving {
		g.holding.left(r.sent, r.engine.Milliseconds(), answer)
		g.demand.told = 0
		return g.rest()
	}
	if g.holding.born != 0 && g.holding.born != answer.born {
		g.tell = g.hold.Wait(now) > 0   // the server has lost the hold, too
		if s.born != 0 && s.ends == 0 { // and that was not expected
			g.session.lost()
		}
	} else if g.tell && g.hold.Wait(now) <= answer.hold+stepSlack {
		g.tell = false
	}
	g.hold.Extend(r.received, answer.hold)
	if g.holding.answer(s, r.sent, r.engine.Milliseconds(), answer) || g.tell {
		return 0
	}
	if g.limit == 0 && g.session.store.subscriber != nil && g.hold.Wait(now) == 0 {
		return listenPeriod
	}
	return answer.wait
}

// failed records that a call failed, and returns the wait until the next one. g.mu must be held.
func (g *global) failed(now time.Duration, leaving bool, err error) (wait time.Duration) {
	var outage *OutageError
	var key *KeyError
	g.holding.failing = true
	switch {
	case errors.Is(err, ErrClosed):
		return never
	case errors.Is(err, errTooLate):
		return time.Millisecond
	case errors.As(err, &key):
		g.err = err
	case !errors.As(err, &outage):
		return firstRepeat
	}
	if leaving && g.holding.forgotten(now) {
		return g.rest()
	}
	return beatPeriod // the manager checks then whether requests have waited too long
}

// rest ends the calls, unless a request needed a part meanwhile. g.mu must be held.
func (g *global) rest() time.Duration {
	g.inUse = g.calls.again && g.changed != nil
	if g.changed == nil {
		g.forget()
	}
	return never
}

// last returns the part when the session ends.
func (g *global) last() {
	g.mu.Lock()
	g.calls.stop()
	g.changed = nil
	inUse := g.inUse && !g.out
	g.inUse = false
	_, arguments, _ := g.say()
	g.mu.Unlock()
	if inUse {
		g.session.lastCall(partScript, g.keys, arguments...)
	}
}
